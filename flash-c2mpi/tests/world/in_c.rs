//! The functions of `mpix.h`: wrong uses (NULL, what is freed, of another kind, child rank or type),
//! failsafes in C, communicators.

use flash_c2mpi::c::calls::*;
use flash_c2mpi::c::collective::*;
use flash_c2mpi::c::info::*;
use flash_c2mpi::c::messages::*;
use flash_c2mpi::c::object::*;
use flash_c2mpi::c::status::*;
use flash_c2mpi::c::types::*;
use std::ffi::{CStr, c_int, c_ulong, c_void};
use std::ptr::{null, null_mut};

fn last() -> String {
    unsafe { CStr::from_ptr(MPIX_Last_error()) }.to_str().unwrap().to_owned()
}

#[track_caller]
fn ok(status: c_int) {
    assert_eq!(status, SUCCESS, "{}", last());
}

#[track_caller]
fn fails(status: c_int, expected: c_int, words: &[&str]) {
    let text = last();
    assert_eq!(status, expected, "{text}");
    words.iter().for_each(|word| assert!(text.contains(word), "no `{word}` in: {text}"));
}

fn object() -> MPIX_ComputeObj {
    let mut object = null_mut();
    ok(unsafe { MPIX_ComputeObj_create(&mut object) });
    object
}

fn send(object: MPIX_ComputeObj, child: c_int) -> c_int {
    unsafe { MPIX_Send(object.cast(), 1, COMPUTE_OBJ, child, 0, COMM_WORLD) }
}

fn recv(object: MPIX_ComputeObj, child: c_int) -> c_int {
    unsafe { MPIX_Recv(object.cast(), 1, COMPUTE_OBJ, child, 0, COMM_WORLD, null_mut()) }
}

/// The world of the process has one configuration.
#[test]
fn wrong_uses_are_errors_with_words() {
    flash_tests::in_process(&[("FLASH_CPU_THREADS", "1")], || {
        let mut child = 0;
        let claim = |alias: *const _, child| unsafe { MPIX_Claim_int(alias, None, null_mut(), child) };
        fails(claim(c"EWMM".as_ptr(), &mut child), ERR_INIT, &["MPIX_Initialize"]);
        fails(MPIX_Finalize(), ERR_INIT, &[]);
        fails(unsafe { MPIX_Initialize_config(c"/no/such/file".as_ptr()) }, ERR_CONFIG, &["/no/such/file"]);
        let mut flag = 7;
        ok(unsafe { MPIX_Initialized(&mut flag) });
        assert_eq!(flag, 0);

        // As `main` has them, with an option of ours.
        let place = tempfile::NamedTempFile::new().unwrap();
        let config = r#"{"host_list": [{"host_name": "h", "max_slots": 2}], "func_list": [
            {"func_alias": "EWMM", "sw_fid": "123456", "key": "ALL_CPU"},
            {"func_alias": "NOTHING", "sw_fid": "nothing", "key": "ALL_CPU"}]}"#;
        std::fs::write(place.path(), config).unwrap();
        let file = std::ffi::CString::new(place.path().to_str().unwrap()).unwrap();
        let texts = [c"program", c"--mpix-config", file.as_c_str(), c"7"];
        let mut arguments: Vec<*mut std::ffi::c_char> =
            texts.iter().map(|text| text.as_ptr().cast_mut()).collect();
        arguments.push(null_mut());
        let (mut argc, mut argv) = (4, arguments.as_mut_ptr());
        ok(unsafe { MPIX_Initialize(&mut argc, &mut argv) });
        assert_eq!(argc, 2);
        assert_eq!(unsafe { CStr::from_ptr(arguments[1]) }, c"7");
        assert!(arguments[2].is_null());
        fails(unsafe { MPIX_Initialize(null_mut(), null_mut()) }, ERR_INIT, &["second"]);
        let mut number = 0;
        ok(unsafe { MPIX_Comm_size(COMM_WORLD, &mut number) });
        assert_eq!(number, 2);
        fails(unsafe { MPIX_Comm_size(5, &mut number) }, ERR_COMM, &["found 5"]);
        fails(MPIX_Parent_attach(2), ERR_RANK, &["from 0 to 1"]);

        // NULL and numbers that are none.
        fails(claim(null(), &mut child), ERR_ARG, &["an alias, found NULL"]);
        fails(claim(c"EWMM".as_ptr(), null_mut()), ERR_ARG, &["child rank, found NULL"]);
        fails(claim(c"X".as_ptr(), &mut child), ERR_ALIAS, &["EWMM, NOTHING"]);
        fails(claim(c"NOTHING".as_ptr(), &mut child), ERR_IMPLEMENTATION, &["flash.ewmm"]);
        assert_eq!(child, 0, "a call that fails sets no result");
        ok(claim(c"EWMM".as_ptr(), &mut child));
        let mut wide: c_ulong = 0;
        ok(unsafe { MPIX_Claim_ulong(c"EWMM".as_ptr(), None, null_mut(), &mut wide) });

        let obj = object();
        fails(unsafe { MPIX_ComputeObj_vector(obj, null(), 4, FLOAT) }, ERR_ARG, &["found 0x0"]);
        fails(unsafe { MPIX_ComputeObj_vector(obj, 3 as *const c_void, 4, FLOAT) }, ERR_ARG, &["0x3"]);
        fails(unsafe { MPIX_ComputeObj_scalar(obj, null(), FLOAT) }, ERR_ARG, &[]);
        let data = [1.0f32; 4];
        let at: *const c_void = data.as_ptr().cast();
        fails(unsafe { MPIX_ComputeObj_vector(obj, at, 4, 99) }, ERR_TYPE, &["found 99"]);
        fails(unsafe { MPIX_ComputeObj_vector(obj, at, 1 << 62, FLOAT) }, ERR_COUNT, &[]);
        fails(unsafe { MPIX_ComputeObj_array(obj, at, 2, null(), FLOAT) }, ERR_ARG, &["extents"]);
        fails(MPIX_ComputeObj_buffer(obj, child), ERR_RANK, &["which is of a child rank"]);
        fails(send(null_mut(), child), ERR_OBJECT, &["found 0"]);
        fails(send(obj, 3), ERR_RANK, &["3, which is none"]);
        fails(send(obj, child), ERR_KERNEL, &["expected the 4 arguments of flash.ewmm", "found 0"]);
        let two = unsafe { MPIX_Send(obj.cast(), 2, COMPUTE_OBJ, child, 0, COMM_WORLD) };
        fails(two, ERR_COUNT, &["found 2"]);
        let tag = unsafe { MPIX_Send(obj.cast(), 1, COMPUTE_OBJ, child, -3, COMM_WORLD) };
        fails(tag, ERR_TAG, &["found -3"]);

        // Wrong types, in what is right otherwise.
        let mut c = [0.0f32; 4];
        let (n, c_at) = (4u64, c.as_mut_ptr());
        let fill = |obj, datatype| unsafe {
            ok(MPIX_ComputeObj_reset(obj));
            ok(MPIX_ComputeObj_scalar(obj, (&raw const n).cast(), datatype));
            ok(MPIX_ComputeObj_vector(obj, at, 4, FLOAT));
            ok(MPIX_ComputeObj_vector(obj, at, 4, FLOAT));
            ok(MPIX_ComputeObj_vector(obj, c_at.cast(), 4, FLOAT));
        };
        fill(obj, INT64_T);
        fails(send(obj, child), ERR_KERNEL, &["argument `n`", "u64", "i64"]);
        fill(obj, UINT64_T);
        ok(send(obj, child));
        ok(send(obj, child));
        // It fits no other object.
        let other = object();
        unsafe { ok(MPIX_ComputeObj_scalar(other, (&raw const n).cast(), UINT64_T)) };
        fails(recv(other, child), ERR_COUNT, &["with 4 arguments"]);
        ok(recv(obj, child));
        let mut few = [0.0f32; 2];
        ok(send(obj, child));
        let short = unsafe { MPIX_Recv(few.as_mut_ptr().cast(), 2, FLOAT, child, 0, COMM_WORLD, null_mut()) };
        fails(short, ERR_COUNT, &["room for 16 bytes, found 8"]);

        // The scalar of another type, and of none.
        let mut value = 0f32;
        let get = |at, value: *mut f32| unsafe { MPIX_ComputeObj_get_scalar(obj, at, value.cast(), FLOAT) };
        fails(get(0, &mut value), ERR_TYPE, &["`u64`", "`f32`"]);
        fails(get(1, &mut value), ERR_ARG, &["scalar"]);
        fails(get(9, &mut value), ERR_ARG, &["one of 4 arguments"]);
        fails(unsafe { MPIX_ComputeObj_set_scalar(obj, 1, at) }, ERR_ARG, &["found an array"]);

        // Requests.
        let mut request = null_mut();
        fails(unsafe { MPIX_Irecv(null_mut(), 1, FLOAT, child, 0, COMM_WORLD, &mut request) }, ERR_ARG, &[]);
        ok(unsafe { MPIX_Irecv(obj.cast(), 1, COMPUTE_OBJ, child, 0, COMM_WORLD, &mut request) });
        let copy = request;
        ok(unsafe { MPIX_Test(&mut request, &mut flag, null_mut()) });
        assert_eq!(flag, 0);
        ok(send(obj, child));
        let mut status = MPIX_Status { MPIX_SOURCE: 0, MPIX_TAG: 0, MPIX_ERROR: 7, bytes: 0 };
        ok(unsafe { MPIX_Wait(&mut request, &mut status) });
        assert!(request.is_null() && status.MPIX_SOURCE == child && status.bytes == 16);
        let mut again = copy;
        fails(unsafe { MPIX_Wait(&mut again, null_mut()) }, ERR_REQUEST, &["which was freed"]);
        ok(unsafe { MPIX_Wait(&mut request, null_mut()) });
        ok(unsafe { MPIX_Get_count(&status, FLOAT, &mut number) });
        assert_eq!((number, c), (4, [1.0; 4]));
        status.bytes = 15;
        fails(unsafe { MPIX_Get_count(&status, FLOAT, &mut number) }, ERR_COUNT, &["15 bytes"]);

        // Infos.
        let mut info = null_mut();
        ok(unsafe { MPIX_Info_create(&mut info) });
        let set =
            |info, key: &CStr, value: &CStr| unsafe { MPIX_Info_set(info, key.as_ptr(), value.as_ptr()) };
        fails(set(info, c"colour", c"red"), ERR_INFO, &["sw_fid", "`colour`"]);
        fails(set(obj.cast(), c"vid", c"*"), ERR_INFO, &["which is of a compute object"]);
        ok(set(info, c"pid", c"no such device"));
        let mut text = [0; 8];
        ok(unsafe { MPIX_Info_get(info, c"pid".as_ptr(), 7, text.as_mut_ptr(), &mut flag) });
        assert_eq!((flag, unsafe { CStr::from_ptr(text.as_ptr()) }), (1, c"no such"));
        let claimed = unsafe { MPIX_Claim_int(c"EWMM".as_ptr(), None, info, &mut number) };
        fails(claimed, ERR_IMPLEMENTATION, &["expected pid `no such device`"]);
        let mut info_copy = info;
        ok(unsafe { MPIX_Info_free(&mut info) });
        fails(unsafe { MPIX_Info_free(&mut info_copy) }, ERR_INFO, &["freed"]);

        // Buffers.
        let mut buffer = 0;
        let create = |of: c_ulong, size, buffer: *mut c_int| unsafe {
            MPIX_CreateBuffer_int(of, 1, 1, size, 4, buffer)
        };
        fails(create(wide, 3, &mut buffer), ERR_TYPE, &["type_size 3"]);
        fails(create(12345, 4, &mut buffer), ERR_RANK, &["12345"]);
        ok(create(wide, 4, &mut buffer));
        fill(obj, UINT64_T);
        ok(MPIX_ComputeObj_reset(other));
        unsafe {
            ok(MPIX_ComputeObj_scalar(other, (&raw const n).cast(), UINT64_T));
            ok(MPIX_ComputeObj_vector(other, at, 4, FLOAT));
            ok(MPIX_ComputeObj_vector(other, at, 4, FLOAT));
            ok(MPIX_ComputeObj_buffer(other, buffer));
        }
        fails(send(other, child), ERR_RANK, &["expected buffers of child rank"]);
        ok(send(other, wide as c_int));
        ok(recv(other, wide as c_int));
        ok(unsafe { MPIX_Recv(c.as_mut_ptr().cast(), 4, FLOAT, buffer, 0, COMM_WORLD, null_mut()) });
        fails(
            unsafe { MPIX_Recv(c.as_mut_ptr().cast(), 4, DOUBLE, buffer, 0, COMM_WORLD, null_mut()) },
            ERR_TYPE,
            &["as the buffer has"],
        );

        // Freed, and freed twice.
        let (mut freed, mut freed_wide) = (child, wide);
        ok(unsafe { MPIX_Free_int(&mut child) });
        assert_eq!(child, 0);
        ok(unsafe { MPIX_Free_int(&mut child) });
        fails(unsafe { MPIX_Free_int(&mut freed) }, ERR_RANK, &["which was freed"]);
        fails(send(obj, freed), ERR_RANK, &["which was freed"]);
        fails(recv(obj, freed), ERR_RANK, &["which was freed"]);
        ok(unsafe { MPIX_Free_ulong(&mut wide) });
        fails(unsafe { MPIX_Free_ulong(&mut freed_wide) }, ERR_RANK, &["which was freed"]);
        fails(MPIX_ComputeObj_buffer(other, buffer), ERR_RANK, &["which was freed"]);
        let mut object_copy = obj;
        let mut obj = obj;
        ok(unsafe { MPIX_ComputeObj_free(&mut obj) });
        assert!(obj.is_null());
        fails(unsafe { MPIX_ComputeObj_free(&mut object_copy) }, ERR_OBJECT, &["which was freed"]);
        fails(MPIX_ComputeObj_reset(object_copy), ERR_OBJECT, &["which was freed"]);
        fails(unsafe { MPIX_ComputeObj_free(null_mut()) }, ERR_ARG, &[]);
        let mut place: *mut c_void = null_mut();
        fails(unsafe { MPIX_Alloc_mem(-1, null_mut(), (&raw mut place).cast()) }, ERR_ARG, &["found -1"]);
        ok(unsafe { MPIX_Alloc_mem(64, null_mut(), (&raw mut place).cast()) });
        ok(MPIX_Free_mem(place));
        fails(MPIX_Free_mem(place), ERR_ARG, &["or freed"]);

        // Texts of errors.
        let mut text = [0; MAX_ERROR_STRING as usize];
        ok(unsafe { MPIX_Error_string(ERR_ARG, text.as_mut_ptr(), &mut number) });
        assert!(unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().unwrap().ends_with("or freed"));
        ok(unsafe { MPIX_Error_string(ERR_DEVICE, text.as_mut_ptr(), &mut number) });
        assert_eq!(unsafe { CStr::from_ptr(text.as_ptr()) }, c"a device failed");
        ok(MPIX_Finalize());
        fails(send(other, child), ERR_INIT, &[]);
    });
}

extern "C" fn twice(input: MPIX_ComputeObj, output: MPIX_ComputeObj) -> c_int {
    let mut argument =
        MPIX_Argument { kind: 0, datatype: 0, count: 0, axes: 0, shape: [0; 4], data: null_mut() };
    if input != output || unsafe { MPIX_ComputeObj_get(output, 0, &mut argument) } != SUCCESS {
        return 1;
    }
    if (argument.kind, argument.datatype) != (OWNED, FLOAT) {
        return 2;
    }
    let data =
        unsafe { std::slice::from_raw_parts_mut(argument.data.cast::<f32>(), argument.count as usize) };
    data.iter_mut().for_each(|x| *x *= 2.0);
    if data[0] > 100.0 { 3 } else { 0 }
}

#[test]
fn a_failsafe_in_c_runs_where_nothing_implements_the_function() {
    flash_tests::in_process(&[("FLASH_CPU_THREADS", "1")], || {
        let place = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(place.path(), r#"{"func_list": [{"func_alias": "NOTHING", "sw_fid": "nothing"}]}"#)
            .unwrap();
        let file = std::ffi::CString::new(place.path().to_str().unwrap()).unwrap();
        ok(unsafe { MPIX_Initialize_config(file.as_ptr()) });
        let mut child = 0;
        ok(unsafe { MPIX_Claim_int(c"NOTHING".as_ptr(), Some(twice), null_mut(), &mut child) });
        let mut data = [1.0f32, 30.0];
        let obj = object();
        ok(unsafe { MPIX_ComputeObj_vector(obj, data.as_mut_ptr().cast(), 2, FLOAT) });
        for _ in 0..6 {
            ok(send(obj, child));
            ok(recv(obj, child));
        }
        assert_eq!(data, [64.0, 1920.0]);
        ok(send(obj, child));
        fails(recv(obj, child), ERR_FAILED, &["failsafe of `NOTHING`", "returned 3"]);
        ok(MPIX_Finalize());
    });
}

#[test]
fn a_communicator_takes_one_call_for_all_of_its_child_ranks() {
    flash_tests::in_process(&[("FLASH_CPU_THREADS", "1")], || {
        let place = tempfile::NamedTempFile::new().unwrap();
        let config = r#"{"func_list": [
            {"func_alias": "DOUBLE", "sw_fid": "halo.double", "key": "ALL_CPU"},
            {"func_alias": "INCREASE", "sw_fid": "halo.increase", "key": "ALL_CPU"}]}"#;
        std::fs::write(place.path(), config).unwrap();
        let file = std::ffi::CString::new(place.path().to_str().unwrap()).unwrap();
        ok(unsafe { MPIX_Initialize_config(file.as_ptr()) });
        let claim = |alias: &CStr| {
            let mut child = 0;
            ok(unsafe { MPIX_Claim_int(alias.as_ptr(), None, null_mut(), &mut child) });
            child
        };
        let comm = |children: &[c_int]| {
            let mut comm = 0;
            ok(unsafe { MPIX_Comm_create(children.as_ptr(), children.len() as c_int, &mut comm) });
            comm
        };
        let mut three = comm(&[(); 3].map(|()| claim(c"DOUBLE")));
        let given: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let at: *mut c_void = given.as_ptr().cast_mut().cast();
        let mut got = [0.0f32; 6];
        let to: *mut c_void = got.as_mut_ptr().cast();
        unsafe {
            ok(MPIX_Scatter(at, 2, FLOAT, null_mut(), 0, DATATYPE_NULL, 0, three));
            ok(MPIX_Gather(null(), 0, DATATYPE_NULL, to, 2, FLOAT, 0, three));
            assert_eq!(got, given.map(|x| 2.0 * x));
            ok(MPIX_Bcast(at, 2, FLOAT, 0, three));
            ok(MPIX_Gather(null(), 0, DATATYPE_NULL, to, 2, FLOAT, 0, three));
            assert_eq!(got, [2.0, 4.0, 2.0, 4.0, 2.0, 4.0]);
            for (op, expected) in
                [(SUM, [18.0, 24.0]), (PROD, [120.0, 384.0]), (MIN, [2.0, 4.0]), (MAX, [10.0, 12.0])]
            {
                ok(MPIX_Scatter(at, 2, FLOAT, null_mut(), 0, DATATYPE_NULL, 0, three));
                ok(MPIX_Reduce(null(), to, 2, FLOAT, op, 0, three));
                assert_eq!(got[..2], expected);
            }
            ok(MPIX_Bcast(at, 2, FLOAT, 0, three));
            fails(
                MPIX_Reduce(null(), to, 3, FLOAT, SUM, 0, three),
                ERR_COUNT,
                &["expected 12 bytes of each"],
            );
            fails(MPIX_Reduce(null(), to, 2, FLOAT, 9, 0, three), ERR_ARG, &["found 9"]);
            fails(MPIX_Bcast(at, 2, FLOAT, 1, three), ERR_RANK, &["as root, found 1"]);
            // Without other processes all is its own.
            ok(MPIX_Barrier(COMM_WORLD));
            ok(MPIX_Bcast(at, 2, FLOAT, 0, COMM_WORLD));
            for take in [MPIX_Gather, MPIX_Scatter] {
                got = [0.0; 6];
                ok(take(at, 6, FLOAT, to, 6, FLOAT, 0, COMM_WORLD));
                assert_eq!(got, given);
                fails(take(at, 6, FLOAT, to, 5, FLOAT, 0, COMM_WORLD), ERR_COUNT, &["as many bytes"]);
                fails(take(at, 6, FLOAT, to, 6, FLOAT, 1, COMM_WORLD), ERR_RANK, &["a root from 0 to 0"]);
                fails(take(at, 1, COMPUTE_OBJ, to, 1, COMPUTE_OBJ, 0, COMM_WORLD), ERR_TYPE, &["elements"]);
            }
            got = [0.0; 6];
            ok(MPIX_Reduce(at, to, 6, FLOAT, PROD, 0, COMM_WORLD));
            assert_eq!(got, given);
            fails(MPIX_Reduce(at, null_mut(), 6, FLOAT, PROD, 0, COMM_WORLD), ERR_ARG, &["NULL"]);
            fails(MPIX_Barrier(three), ERR_COMM, &["MPIX_COMM_WORLD"]);
            fails(MPIX_Barrier(77), ERR_COMM, &["found 77"]);
            fails(MPIX_Comm_create(null(), 0, &mut 0), ERR_COMM, &["at least one"]);
            // Nothing of it is left, and its tag is not for others.
            let mut flag = 1;
            ok(MPIX_Iprobe(ANY_SOURCE, ANY_TAG, COMM_WORLD, &mut flag, null_mut()));
            assert_eq!(flag, 0);
            let status = MPIX_Send(at, 2, FLOAT, claim(c"DOUBLE"), c_int::MAX, COMM_WORLD);
            fails(status, ERR_TAG, &["of collective calls"]);

            // Compute objects, one each.
            let mut two = comm(&[(); 2].map(|()| claim(c"INCREASE")));
            let mut data = [[1.0f32; 2], [5.0; 2]];
            let objects = [0, 1].map(|at| {
                let obj = object();
                let by = 0.5f32;
                ok(MPIX_ComputeObj_scalar(obj, (&raw const by).cast(), FLOAT));
                ok(MPIX_ComputeObj_vector(obj, (&raw mut data[at]).cast(), 2, FLOAT));
                obj
            });
            ok(MPIX_Scatter(objects.as_ptr().cast(), 1, COMPUTE_OBJ, null_mut(), 0, DATATYPE_NULL, 0, two));
            ok(MPIX_Gather(
                null(),
                0,
                DATATYPE_NULL,
                objects.as_ptr().cast_mut().cast(),
                1,
                COMPUTE_OBJ,
                0,
                two,
            ));
            assert_eq!(data, [[1.5; 2], [5.5; 2]]);
            let mut copy = two;
            ok(MPIX_Comm_free(&mut two));
            fails(MPIX_Comm_free(&mut copy), ERR_COMM, &["freed"]);
            ok(MPIX_Comm_free(&mut three));
            assert_eq!(three, COMM_WORLD);
        }
        ok(MPIX_Finalize());
    });
}
