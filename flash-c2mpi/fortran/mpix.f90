! mpix: host programs of C2MPI in Fortran. Compile this file with the program, and link with -lmpix.
!
!     use mpix
!     integer(c_int) :: child
!     type(c_ptr) :: obj
!     if (mpix_initialize() /= mpix_success) stop mpix_last_error()
!     status = mpix_claim('EWMM', child)
!     status = mpix_computeobj_create(obj)
!     status = mpix_computeobj_scalar(obj, c_loc(n), mpix_int64_t)
!     status = mpix_computeobj_vector(obj, c_loc(a), n, mpix_float)
!     status = mpix_send(obj, 1, mpix_compute_obj, child, 0, mpix_comm_world)
!     status = mpix_recv(obj, 1, mpix_compute_obj, child, 0, mpix_comm_world)
!     status = mpix_finalize()
!
! The functions are those of mpix.h, which says what they do, their errors, and what is the caller's duty. Texts
! are Fortran's, and so are shapes, the first axis being the fastest; compute objects, requests, infos and
! addresses are of type(c_ptr). Whole numbers without a sign are of the type with one: give `mpix_uint64_t` and
! a number of the kind c_int64_t.

module mpix
    use, intrinsic :: iso_c_binding
    implicit none
    public

    integer(c_int), parameter :: mpix_success = 0
    integer(c_int), parameter :: mpix_err_init = 1
    integer(c_int), parameter :: mpix_err_arg = 2
    integer(c_int), parameter :: mpix_err_rank = 3
    integer(c_int), parameter :: mpix_err_tag = 4
    integer(c_int), parameter :: mpix_err_type = 5
    integer(c_int), parameter :: mpix_err_count = 6
    integer(c_int), parameter :: mpix_err_object = 7
    integer(c_int), parameter :: mpix_err_request = 8
    integer(c_int), parameter :: mpix_err_info = 9
    integer(c_int), parameter :: mpix_err_comm = 10
    integer(c_int), parameter :: mpix_err_config = 11
    integer(c_int), parameter :: mpix_err_alias = 12
    integer(c_int), parameter :: mpix_err_implementation = 13
    integer(c_int), parameter :: mpix_err_kernel = 14
    integer(c_int), parameter :: mpix_err_failed = 15
    integer(c_int), parameter :: mpix_err_device = 16
    integer(c_int), parameter :: mpix_err_no_mem = 17
    integer(c_int), parameter :: mpix_err_busy = 18
    integer(c_int), parameter :: mpix_err_gone = 19
    integer(c_int), parameter :: mpix_err_panic = 20
    integer(c_int), parameter :: mpix_err_other = 21
    integer(c_int), parameter :: mpix_max_error_string = 1024
    integer(c_int), parameter :: mpix_scalar = 1
    integer(c_int), parameter :: mpix_external = 2
    integer(c_int), parameter :: mpix_unified = 3
    integer(c_int), parameter :: mpix_internal = 4
    integer(c_int), parameter :: mpix_owned = 5
    integer(c_int), parameter :: mpix_datatype_null = 0
    integer(c_int), parameter :: mpix_int8_t = 1
    integer(c_int), parameter :: mpix_int16_t = 2
    integer(c_int), parameter :: mpix_int32_t = 3
    integer(c_int), parameter :: mpix_int64_t = 4
    integer(c_int), parameter :: mpix_uint8_t = 5
    integer(c_int), parameter :: mpix_uint16_t = 6
    integer(c_int), parameter :: mpix_uint32_t = 7
    integer(c_int), parameter :: mpix_uint64_t = 8
    integer(c_int), parameter :: mpix_float = 9
    integer(c_int), parameter :: mpix_double = 10
    integer(c_int), parameter :: mpix_size_t = 11
    integer(c_int), parameter :: mpix_compute_obj = 100
    integer(c_int), parameter :: mpix_comm_world = 0
    integer(c_int), parameter :: mpix_any_source = -1
    integer(c_int), parameter :: mpix_any_tag = -1
    integer(c_int), parameter :: mpix_sum = 1
    integer(c_int), parameter :: mpix_prod = 2
    integer(c_int), parameter :: mpix_min = 3
    integer(c_int), parameter :: mpix_max = 4

    ! What was received: MPIX_Status of mpix.h.
    type, bind(c) :: mpix_status
        integer(c_int) :: source, tag, error
        integer(c_int64_t) :: bytes
    end type

    ! An argument of a compute object: MPIX_Argument of mpix.h.
    type, bind(c) :: mpix_argument
        integer(c_int) :: kind, datatype
        integer(c_int64_t) :: count
        integer(c_int) :: axes
        integer(c_int64_t) :: shape(4)
        type(c_ptr) :: data
    end type

    interface
        function mpix_initialized(flag) bind(c, name='MPIX_Initialized') result(code)
            import
            integer(c_int), intent(out) :: flag
            integer(c_int) :: code
        end function

        function mpix_finalize() bind(c, name='MPIX_Finalize') result(code)
            import
            integer(c_int) :: code
        end function

        function mpix_create_buffer_(child, is_signed, is_float, type_size, vector_size, &
            buffer) bind(c, name='MPIX_CreateBuffer_int') result(code)
            import
            integer(c_long), value :: child
            integer(c_int), value :: is_signed
            integer(c_int), value :: is_float
            integer(c_int), value :: type_size
            integer(c_int64_t), value :: vector_size
            integer(c_int), intent(out) :: buffer
            integer(c_int) :: code
        end function

        function mpix_buffer_shape(buffer, axes, shape) bind(c, name='MPIX_Buffer_shape') result(code)
            import
            integer(c_long), value :: buffer
            integer(c_int), value :: axes
            integer(c_int64_t), intent(in) :: shape(*)
            integer(c_int) :: code
        end function

        function mpix_free(child) bind(c, name='MPIX_Free_int') result(code)
            import
            integer(c_int), intent(inout) :: child
            integer(c_int) :: code
        end function

        function mpix_comm_rank(comm, rank) bind(c, name='MPIX_Comm_rank') result(code)
            import
            integer(c_int), value :: comm
            integer(c_int), intent(out) :: rank
            integer(c_int) :: code
        end function

        function mpix_comm_size(comm, size) bind(c, name='MPIX_Comm_size') result(code)
            import
            integer(c_int), value :: comm
            integer(c_int), intent(out) :: size
            integer(c_int) :: code
        end function

        function mpix_parent_attach(rank) bind(c, name='MPIX_Parent_attach') result(code)
            import
            integer(c_int), value :: rank
            integer(c_int) :: code
        end function

        function mpix_alloc_mem(size, info, baseptr) bind(c, name='MPIX_Alloc_mem') result(code)
            import
            integer(c_size_t), value :: size
            type(c_ptr), value :: info
            type(c_ptr), intent(out) :: baseptr
            integer(c_int) :: code
        end function

        function mpix_free_mem(base) bind(c, name='MPIX_Free_mem') result(code)
            import
            type(c_ptr), value :: base
            integer(c_int) :: code
        end function

        function mpix_type_size(datatype, size) bind(c, name='MPIX_Type_size') result(code)
            import
            integer(c_int), value :: datatype
            integer(c_int), intent(out) :: size
            integer(c_int) :: code
        end function

        function mpix_info_create(info) bind(c, name='MPIX_Info_create') result(code)
            import
            type(c_ptr), intent(out) :: info
            integer(c_int) :: code
        end function

        function mpix_info_free(info) bind(c, name='MPIX_Info_free') result(code)
            import
            type(c_ptr), intent(inout) :: info
            integer(c_int) :: code
        end function

        function mpix_computeobj_create(obj) bind(c, name='MPIX_ComputeObj_create') result(code)
            import
            type(c_ptr), intent(out) :: obj
            integer(c_int) :: code
        end function

        function mpix_computeobj_free(obj) bind(c, name='MPIX_ComputeObj_free') result(code)
            import
            type(c_ptr), intent(inout) :: obj
            integer(c_int) :: code
        end function

        function mpix_computeobj_reset(obj) bind(c, name='MPIX_ComputeObj_reset') result(code)
            import
            type(c_ptr), value :: obj
            integer(c_int) :: code
        end function

        function mpix_computeobj_scalar(obj, value, datatype) bind(c, name='MPIX_ComputeObj_scalar') result(code)
            import
            type(c_ptr), value :: obj
            type(c_ptr), value :: value
            integer(c_int), value :: datatype
            integer(c_int) :: code
        end function

        function mpix_computeobj_set_scalar(obj, position, value) bind(c, &
            name='MPIX_ComputeObj_set_scalar') result(code)
            import
            type(c_ptr), value :: obj
            integer(c_int), value :: position
            type(c_ptr), value :: value
            integer(c_int) :: code
        end function

        function mpix_computeobj_vector(obj, data, count, datatype) bind(c, name='MPIX_ComputeObj_vector') result(code)
            import
            type(c_ptr), value :: obj
            type(c_ptr), value :: data
            integer(c_int64_t), value :: count
            integer(c_int), value :: datatype
            integer(c_int) :: code
        end function

        function mpix_computeobj_array(obj, data, axes, shape, datatype) bind(c, &
            name='MPIX_ComputeObj_array') result(code)
            import
            type(c_ptr), value :: obj
            type(c_ptr), value :: data
            integer(c_int), value :: axes
            integer(c_int64_t), intent(in) :: shape(*)
            integer(c_int), value :: datatype
            integer(c_int) :: code
        end function

        function mpix_computeobj_buffer(obj, buffer) bind(c, name='MPIX_ComputeObj_buffer') result(code)
            import
            type(c_ptr), value :: obj
            integer(c_int), value :: buffer
            integer(c_int) :: code
        end function

        function mpix_computeobj_range(obj, kernel, dimensions, begin, end) bind(c, &
            name='MPIX_ComputeObj_range') result(code)
            import
            type(c_ptr), value :: obj
            integer(c_int), value :: kernel
            integer(c_int), value :: dimensions
            integer(c_int64_t), intent(in) :: begin(*)
            integer(c_int64_t), intent(in) :: end(*)
            integer(c_int) :: code
        end function

        function mpix_computeobj_count(obj, count) bind(c, name='MPIX_ComputeObj_count') result(code)
            import
            type(c_ptr), value :: obj
            integer(c_int), intent(out) :: count
            integer(c_int) :: code
        end function

        function mpix_computeobj_get(obj, position, argument) bind(c, name='MPIX_ComputeObj_get') result(code)
            import
            type(c_ptr), value :: obj
            integer(c_int), value :: position
            type(mpix_argument), intent(out) :: argument
            integer(c_int) :: code
        end function

        function mpix_computeobj_get_scalar(obj, position, value, datatype) bind(c, &
            name='MPIX_ComputeObj_get_scalar') result(code)
            import
            type(c_ptr), value :: obj
            integer(c_int), value :: position
            type(c_ptr), value :: value
            integer(c_int), value :: datatype
            integer(c_int) :: code
        end function

        function mpix_send(buf, count, datatype, child, tag, comm) bind(c, name='MPIX_Send') result(code)
            import
            type(c_ptr), value :: buf
            integer(c_int), value :: count
            integer(c_int), value :: datatype
            integer(c_int), value :: child
            integer(c_int), value :: tag
            integer(c_int), value :: comm
            integer(c_int) :: code
        end function

        function mpix_sendfwd(buf, count, datatype, child, dest, tag, comm) bind(c, name='MPIX_SendFwd') result(code)
            import
            type(c_ptr), value :: buf
            integer(c_int), value :: count
            integer(c_int), value :: datatype
            integer(c_int), value :: child
            integer(c_int), value :: dest
            integer(c_int), value :: tag
            integer(c_int), value :: comm
            integer(c_int) :: code
        end function

        function mpix_recv(buf, count, datatype, child, tag, comm, status) bind(c, name='MPIX_Recv') result(code)
            import
            type(c_ptr), value :: buf
            integer(c_int), value :: count
            integer(c_int), value :: datatype
            integer(c_int), value :: child
            integer(c_int), value :: tag
            integer(c_int), value :: comm
            type(mpix_status), optional, intent(out) :: status
            integer(c_int) :: code
        end function

        function mpix_isend(buf, count, datatype, child, tag, comm, request) bind(c, name='MPIX_Isend') result(code)
            import
            type(c_ptr), value :: buf
            integer(c_int), value :: count
            integer(c_int), value :: datatype
            integer(c_int), value :: child
            integer(c_int), value :: tag
            integer(c_int), value :: comm
            type(c_ptr), intent(out) :: request
            integer(c_int) :: code
        end function

        function mpix_irecv(buf, count, datatype, child, tag, comm, request) bind(c, name='MPIX_Irecv') result(code)
            import
            type(c_ptr), value :: buf
            integer(c_int), value :: count
            integer(c_int), value :: datatype
            integer(c_int), value :: child
            integer(c_int), value :: tag
            integer(c_int), value :: comm
            type(c_ptr), intent(out) :: request
            integer(c_int) :: code
        end function

        function mpix_wait(request, status) bind(c, name='MPIX_Wait') result(code)
            import
            type(c_ptr), intent(inout) :: request
            type(mpix_status), optional, intent(out) :: status
            integer(c_int) :: code
        end function

        function mpix_test(request, flag, status) bind(c, name='MPIX_Test') result(code)
            import
            type(c_ptr), intent(inout) :: request
            integer(c_int), intent(out) :: flag
            type(mpix_status), optional, intent(out) :: status
            integer(c_int) :: code
        end function

        function mpix_probe(child, tag, comm, status) bind(c, name='MPIX_Probe') result(code)
            import
            integer(c_int), value :: child
            integer(c_int), value :: tag
            integer(c_int), value :: comm
            type(mpix_status), optional, intent(out) :: status
            integer(c_int) :: code
        end function

        function mpix_iprobe(child, tag, comm, flag, status) bind(c, name='MPIX_Iprobe') result(code)
            import
            integer(c_int), value :: child
            integer(c_int), value :: tag
            integer(c_int), value :: comm
            integer(c_int), intent(out) :: flag
            type(mpix_status), optional, intent(out) :: status
            integer(c_int) :: code
        end function

        function mpix_get_count(status, datatype, count) bind(c, name='MPIX_Get_count') result(code)
            import
            type(mpix_status), intent(in) :: status
            integer(c_int), value :: datatype
            integer(c_int), intent(out) :: count
            integer(c_int) :: code
        end function

        function mpix_comm_create(children, count, comm) bind(c, name='MPIX_Comm_create') result(code)
            import
            integer(c_int), intent(in) :: children(*)
            integer(c_int), value :: count
            integer(c_int), intent(out) :: comm
            integer(c_int) :: code
        end function

        function mpix_comm_free(comm) bind(c, name='MPIX_Comm_free') result(code)
            import
            integer(c_int), intent(inout) :: comm
            integer(c_int) :: code
        end function

        function mpix_barrier(comm) bind(c, name='MPIX_Barrier') result(code)
            import
            integer(c_int), value :: comm
            integer(c_int) :: code
        end function

        function mpix_bcast(buf, count, datatype, root, comm) bind(c, name='MPIX_Bcast') result(code)
            import
            type(c_ptr), value :: buf
            integer(c_int), value :: count
            integer(c_int), value :: datatype
            integer(c_int), value :: root
            integer(c_int), value :: comm
            integer(c_int) :: code
        end function

        function mpix_scatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, &
            comm) bind(c, name='MPIX_Scatter') result(code)
            import
            type(c_ptr), value :: sendbuf
            integer(c_int), value :: sendcount
            integer(c_int), value :: sendtype
            type(c_ptr), value :: recvbuf
            integer(c_int), value :: recvcount
            integer(c_int), value :: recvtype
            integer(c_int), value :: root
            integer(c_int), value :: comm
            integer(c_int) :: code
        end function

        function mpix_gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, &
            comm) bind(c, name='MPIX_Gather') result(code)
            import
            type(c_ptr), value :: sendbuf
            integer(c_int), value :: sendcount
            integer(c_int), value :: sendtype
            type(c_ptr), value :: recvbuf
            integer(c_int), value :: recvcount
            integer(c_int), value :: recvtype
            integer(c_int), value :: root
            integer(c_int), value :: comm
            integer(c_int) :: code
        end function

        function mpix_reduce(sendbuf, recvbuf, count, datatype, op, root, comm) bind(c, name='MPIX_Reduce') result(code)
            import
            type(c_ptr), value :: sendbuf
            type(c_ptr), value :: recvbuf
            integer(c_int), value :: count
            integer(c_int), value :: datatype
            integer(c_int), value :: op
            integer(c_int), value :: root
            integer(c_int), value :: comm
            integer(c_int) :: code
        end function
    end interface

contains

    ! Begins a program, with the configuration of FLASH_HALO_CONFIG or of a file.
    function mpix_initialize(config) result(code)
        character(*), intent(in), optional :: config
        integer(c_int) :: code
        interface
            function c_initialize(argc, argv) bind(c, name='MPIX_Initialize') result(code)
                import
                type(c_ptr), value :: argc, argv
                integer(c_int) :: code
            end function
            function c_initialize_config(file) bind(c, name='MPIX_Initialize_config') result(code)
                import
                character(kind=c_char), intent(in) :: file(*)
                integer(c_int) :: code
            end function
        end interface
        if (present(config)) then
            code = c_initialize_config(trim(config)//c_null_char)
        else
            code = c_initialize(c_null_ptr, c_null_ptr)
        end if
    end function

    ! Claims a function by its alias. The failsafe is c_funloc of a function with bind(c) of two compute objects.
    function mpix_claim(alias, child, failsafe, overrides) result(code)
        character(*), intent(in) :: alias
        integer(c_int), intent(out) :: child
        type(c_funptr), intent(in), optional :: failsafe
        type(c_ptr), intent(in), optional :: overrides
        integer(c_int) :: code
        type(c_funptr) :: function
        type(c_ptr) :: info
        interface
            function c_claim(alias, failsafe, overrides, child) bind(c, name='MPIX_Claim_int') result(code)
                import
                character(kind=c_char), intent(in) :: alias(*)
                type(c_funptr), value :: failsafe
                type(c_ptr), value :: overrides
                integer(c_int), intent(inout) :: child
                integer(c_int) :: code
            end function
        end interface
        function = c_null_funptr
        if (present(failsafe)) function = failsafe
        info = c_null_ptr
        if (present(overrides)) info = overrides
        child = 0
        code = c_claim(trim(alias)//c_null_char, function, info, child)
    end function

    ! Creates a buffer of a child rank, or of the framework, if that is 0.
    function mpix_createbuffer(child, is_signed, is_float, type_size, vector_size, buffer) result(code)
        integer(c_int), intent(in) :: child, is_signed, is_float, type_size
        integer(c_int64_t), intent(in) :: vector_size
        integer(c_int), intent(out) :: buffer
        integer(c_int) :: code
        code = mpix_create_buffer_(int(child, c_long), is_signed, is_float, type_size, vector_size, buffer)
    end function

    ! Sets a key of an info.
    function mpix_info_set(info, key, value) result(code)
        type(c_ptr), intent(in) :: info
        character(*), intent(in) :: key, value
        integer(c_int) :: code
        interface
            function c_info_set(info, key, value) bind(c, name='MPIX_Info_set') result(code)
                import
                type(c_ptr), value :: info
                character(kind=c_char), intent(in) :: key(*), value(*)
                integer(c_int) :: code
            end function
        end interface
        code = c_info_set(info, trim(key)//c_null_char, trim(value)//c_null_char)
    end function

    ! The value of a key of an info; found is 0 if it is not set.
    function mpix_info_get(info, key, value, found) result(code)
        type(c_ptr), intent(in) :: info
        character(*), intent(in) :: key
        character(*), intent(out) :: value
        integer(c_int), intent(out) :: found
        integer(c_int) :: code
        character(kind=c_char) :: bytes(len(value) + 1)
        integer :: i
        interface
            function c_info_get(info, key, length, value, flag) bind(c, name='MPIX_Info_get') result(code)
                import
                type(c_ptr), value :: info
                character(kind=c_char), intent(in) :: key(*)
                integer(c_int), value :: length
                character(kind=c_char), intent(out) :: value(*)
                integer(c_int), intent(out) :: flag
                integer(c_int) :: code
            end function
        end interface
        bytes = c_null_char
        code = c_info_get(info, trim(key)//c_null_char, int(len(value), c_int), bytes, found)
        value = ' '
        do i = 1, len(value)
            if (bytes(i) == c_null_char) exit
            value(i:i) = bytes(i)
        end do
    end function

    ! The datatype of a struct, by the name by which its kernels know it.
    function mpix_type_create(name, size, alignment, datatype) result(code)
        character(*), intent(in) :: name
        integer(c_size_t), intent(in) :: size, alignment
        integer(c_int), intent(out) :: datatype
        integer(c_int) :: code
        interface
            function c_type_create(name, size, alignment, datatype) bind(c, name='MPIX_Type_create') result(code)
                import
                character(kind=c_char), intent(in) :: name(*)
                integer(c_size_t), value :: size, alignment
                integer(c_int), intent(inout) :: datatype
                integer(c_int) :: code
            end function
        end interface
        datatype = mpix_datatype_null
        code = c_type_create(trim(name)//c_null_char, size, alignment, datatype)
    end function

    ! The text of an error: of the last one of this thread, if it was this one; else what the number means.
    function mpix_error_string(code) result(text)
        integer(c_int), intent(in) :: code
        character(:), allocatable :: text
        character(kind=c_char) :: bytes(mpix_max_error_string)
        integer(c_int) :: length, status
        integer :: i
        interface
            function c_error_string(code, string, length) bind(c, name='MPIX_Error_string') result(status)
                import
                integer(c_int), value :: code
                character(kind=c_char), intent(out) :: string(*)
                integer(c_int), intent(out) :: length
                integer(c_int) :: status
            end function
        end interface
        status = c_error_string(code, bytes, length)
        if (status /= mpix_success) length = 0
        allocate (character(length) :: text)
        do i = 1, length
            text(i:i) = bytes(i)
        end do
    end function

    ! The text of the last error of this thread.
    function mpix_last_error() result(text)
        character(:), allocatable :: text
        character(kind=c_char), pointer :: bytes(:)
        type(c_ptr) :: at
        integer(c_size_t) :: length, i
        interface
            function c_last_error() bind(c, name='MPIX_Last_error') result(text)
                import
                type(c_ptr) :: text
            end function
            function c_strlen(text) bind(c, name='strlen') result(length)
                import
                type(c_ptr), value :: text
                integer(c_size_t) :: length
            end function
        end interface
        at = c_last_error()
        length = c_strlen(at)
        call c_f_pointer(at, bytes, [length])
        allocate (character(length) :: text)
        do i = 1, length
            text(i:i) = bytes(i)
        end do
    end function
end module
