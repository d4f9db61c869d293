//! Files with code beside a definition, and their registered implementations.

use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Write};
use flash_core::kernel::{Element, ImplementationEntry, c_type};

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
#[implementations(
    opencl = "../fill.cl", cooperating, for(f32, u64);
    opencl = "../fill.cl", name = "large", priority = -3, work_group_size = 256,
    build_options = "-cl-mad-enable", device = "Difference Engine", for(f32)
)]
struct Fill<'a, T: Element> {
    value: T,
    x: Item<'a, Write<T>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "group.fill_rows", dims(x))]
#[implementations(opencl = "../fill.cl", entry = "fill", single_work_item, requires = "cl_khr_fp16", for((f32, { 1 + 2 })))]
struct FillRows<'a, T, const N: usize>
where
    T: Element,
    [T; N]: Element,
{
    value: T,
    x: Item<'a, Write<[T; N]>>,
}

#[test]
fn every_file_is_registered_with_what_it_is_told() {
    let all: Vec<_> = flash_core::__private::inventory::iter::<ImplementationEntry>()
        .map(|entry| (entry.build)())
        .collect();
    let mut found: Vec<(String, i32, Vec<String>)> = all
        .iter()
        .map(|raw| {
            assert_eq!(raw.kind, flash_core::abi::KIND_INT_SRC);
            // SAFETY: texts of implementations live for ever.
            let payload = unsafe { std::slice::from_raw_parts(raw.payload, raw.payload_len) };
            assert_eq!(payload, include_bytes!("../fill.cl"));
            // SAFETY: as above.
            unsafe {
                assert_eq!(raw.target.text(), "opencl");
                assert!(raw.descriptor.text().contains(&raw.kernel.text()));
                let attributes = std::slice::from_raw_parts(raw.attributes, raw.attribute_count);
                let attributes = attributes.iter().map(|a| format!("{}={}", a.key.text(), a.value.text()));
                let attributes = attributes.filter(|a| !a.starts_with("file="));
                (raw.name.text(), raw.priority, attributes.collect())
            }
        })
        .collect();
    found.sort();
    let expected = [
        (
            "fill.cl",
            0,
            &[
                r#"defines={"FLASH_N":"3","FLASH_T":"float"}"#,
                r#"entry="fill""#,
                r#"requires="cl_khr_fp16""#,
                "single_work_item=true",
            ][..],
        ),
        ("fill.cl", 0, &[r#"defines={"FLASH_T":"flash_u64"}"#, "cooperating=true"]),
        ("fill.cl", 0, &[r#"defines={"FLASH_T":"float"}"#, "cooperating=true"]),
        (
            "large",
            -3,
            &[
                r#"defines={"FLASH_T":"float"}"#,
                r#"build_options="-cl-mad-enable""#,
                r#"device="Difference Engine""#,
                "work_group_size=256",
            ],
        ),
    ];
    let expected = expected.map(|(name, priority, attributes)| {
        (name.to_owned(), priority, attributes.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>())
    });
    assert_eq!(found, expected);
    assert_eq!((c_type::<f64>(), c_type::<[f32; 3]>()), (Some("double".into()), None));
}
