//! Modules: variables, attributes of functions, and texts that are no programs.

use super::*;
use cudarc::driver::sys::{CUfunction_attribute as Attribute, CUjit_option};
use std::ffi::{CStr, c_char};

#[test]
fn variables_have_first_values_and_addresses() {
    let device = Device::new(0);
    let text = kernel(
        1,
        "ld.param.u64 %d9, [p0]; ld.const.u32 %r1, [table+8]; ld.global.u64 %d1, [link]; ld.u32 %r2, [%d1];
        mov.u64 %d2, table; cvta.const.u64 %d2, %d2; ld.u32 %r3, [%d2]; add.s32 %r1, %r1, %r2; add.s32 %r1, %r1, %r3;
        st.global.u32 [%d9], %r1; ld.global.u32 %r4, [count]; add.s32 %r4, %r4, 1; st.global.u32 [count], %r4;",
    );
    let variables = ".const .align 4 .u32 table[3] = {100, 200, 0x12C};
        .global .align 4 .b8 bytes[8] = {1, 0, 0, 0, 2}; .global .align 8 .u64 link = generic(bytes)+4;
        .visible .global .align 4 .u32 count = 5;";
    let module = device.load(&text.replace(".visible .entry", &format!("{variables}\n.visible .entry")));
    let (mut function, mut address, mut bytes) = (null_mut(), 0, 0);
    ok!(cuModuleGetFunction(Out(&mut function), module, In(c"k".as_ptr())));
    let to = device.allocate(4);
    device.run(function, 1, 1, &[to]);
    device.run(function, 1, 1, &[to]);
    assert_eq!(device.download::<u32>(to, 1), [300 + 2 + 100]);
    ok!(cuModuleGetGlobal_v2(Out(&mut address), Out(&mut bytes), module, In(c"count".as_ptr())));
    assert_eq!((device.download::<u32>(address, 1), bytes), (vec![7], 4));
    let missing =
        call!(cuModuleGetGlobal_v2(Out(&mut address), Out(&mut bytes), module, In(c"none".as_ptr())));
    assert_eq!(missing, CUresult::CUDA_ERROR_NOT_FOUND);
    ok!(cuModuleUnload(module));
    assert_eq!(device.launch(function, 1, 1, &[to]), CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn ptx_that_is_newer_than_the_driver_is_refused() {
    let _device = Device::new(0);
    let (mut module, text) =
        (null_mut(), CString::new(kernel(0, "").replace(".version 8.0", ".version 9.1")));
    let text = text.unwrap();
    let loaded = call!(cuModuleLoadData(Out(&mut module), text.as_ptr().cast()));
    assert_eq!(loaded, CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

#[test]
fn functions_say_what_they_take_and_need() {
    let device = Device::new(0);
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry one(.param .align 8 .b8 s[24], .param .u8 b,
        .param .f64 d) .reqntid 96, 2, 1 { .shared .align 16 .b8 own[100]; .local .align 8 .b8 mine[40]; ret; }
        .visible .entry two() { ret; }";
    let module = device.load(text);
    let mut count = 0;
    ok!(cuModuleGetFunctionCount(Out(&mut count), module));
    let mut functions = [null_mut(); 2];
    ok!(cuModuleEnumerateFunctions(Out(functions.as_mut_ptr()), 2, module));
    let mut names = Vec::new();
    for function in functions {
        let (mut name, mut own): (*const c_char, _) = (std::ptr::null(), null_mut());
        ok!(cuFuncGetName(Out(&mut name), function));
        // SAFETY: a text of the driver, which stays.
        names.push(unsafe { CStr::from_ptr(name) }.to_str().unwrap());
        ok!(cuFuncGetModule(Out(&mut own), function));
        assert_eq!(own, module);
    }
    assert_eq!((count, names), (2, vec!["one", "two"]));
    let [mut offset, mut size] = [0; 2];
    let mut parameters = Vec::new();
    while call!(cuFuncGetParamInfo(functions[0], parameters.len(), Out(&mut offset), Out(&mut size)))
        == CUresult::CUDA_SUCCESS
    {
        parameters.push((offset, size));
    }
    assert_eq!(parameters, [(0, 24), (24, 1), (32, 8)]);
    // One of a list is not loaded before it was asked for by its name.
    let mut value = 0;
    let registers = Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS as u32;
    let early = call!(cuFuncGetAttribute(Out(&mut value), registers, functions[0]));
    assert_eq!(early, CUresult::CUDA_ERROR_FUNCTION_NOT_LOADED);
    for (name, listed) in [c"one", c"two"].into_iter().zip(functions) {
        let mut function = null_mut();
        ok!(cuModuleGetFunction(Out(&mut function), module, In(name.as_ptr())));
        assert_eq!(function, listed);
    }
    for (attribute, expected) in [
        (Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 192),
        (Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 100),
        (Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (48 << 10) - 100),
    ] {
        let mut value = 0;
        ok!(cuFuncGetAttribute(Out(&mut value), attribute as u32, functions[0]));
        assert_eq!(value, expected, "{attribute:?}");
    }
    let [mut blocks, mut threads] = [0; 2];
    ok!(cuOccupancyMaxPotentialBlockSize(Out(&mut blocks), Out(&mut threads), functions[0], None, 0, 0));
    assert_eq!((blocks, threads), (32, 192));
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(Out(&mut blocks), functions[0], 192, 40 << 10));
    assert_eq!(blocks, 2);
}

/// The code and the log with which a text is refused.
fn refused(_: &Device, text: &[u8]) -> (CUresult, String) {
    let (mut module, mut log) = (null_mut(), [0u8; 300]);
    let mut options = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER as u32,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as u32,
    ];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
    let text = [text, &[0; 8]].concat();
    let code = call!(cuModuleLoadDataEx(
        Out(&mut module),
        text.as_ptr().cast(),
        2,
        In(options.as_mut_ptr()),
        values.as_mut_ptr()
    ));
    let log = CStr::from_bytes_until_nul(&log).unwrap().to_str().unwrap().to_owned();
    assert_eq!(values[1].addr(), log.len());
    (code, log)
}

#[test]
fn a_text_that_is_no_program_is_refused_with_its_line() {
    let device = Device::new(0);
    let with = |body: &str| kernel(1, body);
    for (body, words) in [
        ("frob.s32 %r1, %r2;", "line 12: unknown instruction \"frob.s32\""),
        ("add.s32 %r1, %r2, %q3;", "line 12: add.s32: unknown name \"%q3\""),
        ("add.cold.s32 %r1, %r2, %r3;", "line 12: add.cold.s32: unknown form"),
        ("ld.global.warm.u32 %r1, [%d1];", "line 12: unknown modifiers [\"warm\"]"),
        ("bra NOWHERE;", "no label \"NOWHERE\""),
        ("add.s32 %r1, %r2", "expected a comma or the instruction's end"),
        ("call elsewhere, ();", "no function \"elsewhere\""),
    ] {
        let (code, log) = refused(&device, with(body).as_bytes());
        assert_eq!(code, CUresult::CUDA_ERROR_INVALID_PTX, "{body}");
        assert!(log.contains(words), "{body}: {log}");
    }
    for (image, code) in [
        (&b"\x7FELF\x02\x01"[..], CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU),
        (&[0x50, 0xED, 0x55, 0xBA][..], CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU),
        (b"int main() {}", CUresult::CUDA_ERROR_INVALID_IMAGE),
        (kernel(0, "").replace("sm_80", "sm_90").as_bytes(), CUresult::CUDA_ERROR_INVALID_PTX),
    ] {
        assert_eq!(refused(&device, image).0, code);
    }
    ok!(cuCtxSynchronize());
}
