//! Tests without a launch: refused arguments.

use super::*;

#[test]
fn arrays_of_other_lengths_are_refused_with_both() {
    let (pos, mass, two) = (
        FlashMemory::<[f32; 3]>::zeroed(3),
        FlashMemory::<f32>::zeroed(3),
        FlashMemory::<[f32; 3]>::zeroed(2),
    );
    let (light, text) = (FlashMemory::<f32>::zeroed(4), |error: Error| error.to_string());
    assert!(accelerate(1.0, 0.0, &pos, &mass, &pos).is_ok());
    assert!(integrate(1.0, &pos, &pos, &pos).is_ok());
    assert!(simulate([1.0; 3], &mass, &pos, &pos, &pos).is_ok());
    assert_eq!(
        text(accelerate(1.0, 0.0, &pos, &light, &pos).err().unwrap()),
        "kernel `flash.nbody.accelerate`, argument `mass`: expected 3 elements, as `pos`, found 4: pass an array of that length"
    );
    for (error, argument) in [
        (accelerate(1.0, 0.0, &pos, &mass, &two).err(), "`acc`"),
        (integrate(1.0, &two, &pos, &pos).err(), "`acc`"),
        (integrate(1.0, &pos, &pos, &two).err(), "`vel`"),
        (simulate([1.0; 3], &light, &pos, &pos, &pos).err(), "`mass`"),
        (simulate([1.0; 3], &mass, &pos, &two, &pos).err(), "`vel`"),
        (simulate([1.0; 3], &mass, &pos, &pos, &two).err(), "`acc`"),
    ] {
        let text = text(error.unwrap());
        assert!(text.contains(argument) && text.contains("expected 3 elements, as `pos`, found "), "{text}");
    }
}
