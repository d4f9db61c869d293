//! A module in SPIR-V, as an offline compiler writes it.

/// `y[i] += a * x[i]`, of `float`, as the kernel `scale_plain`.
pub fn scale() -> Vec<u8> {
    // Numbers of results, in the order in which they are made.
    let [void, long, three, place, float, array, function, id] = [1, 2, 3, 4, 5, 6, 7, 8];
    let [main, a, x, y, label, ids, i, from, value, to, old, product, sum] =
        [9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21];
    // "scale_plain" and its NUL, four bytes to a word.
    let name = |text: &[u8; 12]| -> [u32; 3] {
        std::array::from_fn(|k| u32::from_le_bytes(std::array::from_fn(|byte| text[4 * k + byte])))
    };
    let [n0, n1, n2] = name(b"scale_plain\0");
    let (kernel, input, everywhere) = (6, 1, 5);
    let instructions: &[(u32, &[u32])] = &[
        // Capabilities: addresses, kernels, integers of 64 bits.
        (17, &[4]),
        (17, &[6]),
        (17, &[11]),
        // Physical addresses of 64 bits, OpenCL's memory model.
        (14, &[2, 2]),
        (15, &[kernel, main, n0, n1, n2, id]),
        // The variable is the global id.
        (71, &[id, 11, 28]),
        (71, &[id, 22]),
        (19, &[void]),
        (21, &[long, 64, 0]),
        (23, &[three, long, 3]),
        (32, &[place, input, three]),
        (22, &[float, 32]),
        (32, &[array, everywhere, float]),
        (33, &[function, void, float, array, array]),
        (59, &[place, id, input]),
        (54, &[void, main, 0, function]),
        (55, &[float, a]),
        (55, &[array, x]),
        (55, &[array, y]),
        (248, &[label]),
        (61, &[three, ids, id, 2, 32]),
        (81, &[long, i, ids, 0]),
        (70, &[array, from, x, i]),
        (61, &[float, value, from, 2, 4]),
        (70, &[array, to, y, i]),
        (61, &[float, old, to, 2, 4]),
        (133, &[float, product, a, value]),
        (129, &[float, sum, old, product]),
        (62, &[to, sum, 2, 4]),
        (253, &[]),
        (56, &[]),
    ];
    // Magic number, version 1.0, no registered generator, a bound of the numbers.
    let mut words = vec![0x0723_0203, 0x0001_0000, 0, 22, 0];
    for (code, operands) in instructions {
        words.push((operands.len() as u32 + 1) << 16 | code);
        words.extend_from_slice(operands);
    }
    words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
}
