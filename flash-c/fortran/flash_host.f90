! flash_host: host programs in Fortran with FLASH. Compile this file with the program, and link with -lflash.
!
!     use flash_host
!     type(c_ptr) :: rt, saxpy, x, y
!     integer(c_int64_t) :: n = 1000
!     if (flash_runtime_open('ALL_ACCEL', rt) /= flash_ok) stop flash_last_error()
!     status = flash_kernel_find(rt, 'my.saxpy', saxpy)
!     status = flash_memory_create('f32', [n], x, c_loc(data))
!     status = flash_memory_create('f32', [n], y)
!     status = flash_kernel_launch(saxpy, [flash_as(2.0), flash_as(x), flash_as(y)], [flash_count(n)])
!
! The functions are those of flash.h, which says what they do, their errors, and what is the caller's duty.
! Handles are of type(c_ptr); texts, lists and shapes are Fortran's; results come before what is optional.
! A shape is that of Fortran's array, the first axis being the fastest. Elements are counted from 0 and
! ranges end before their last argument, as in C.

module flash_host
    use, intrinsic :: iso_c_binding
    implicit none
    public

    ! The status of what is done; flash_status_name names the others.
    integer(c_int32_t), parameter :: flash_ok = 0

    ! An argument of a kernel: flash_value of flash.h. Made by flash_as, flash_as_range and flash_as_value.
    type, bind(c) :: flash_value
        integer(c_int32_t) :: kind
        integer(c_int32_t) :: reserved = 0
        integer(c_int64_t) :: bits = 0
        integer(c_int64_t) :: begin = 0
        integer(c_int64_t) :: past = 0
    end type

    ! A dimension of a launch: flash_dimension of flash.h. Made by flash_count, flash_range and flash_list.
    type, bind(c) :: flash_dimension
        integer(c_int64_t) :: start = 0
        integer(c_int64_t) :: step = 1
        integer(c_int64_t) :: count = 0
        type(c_ptr) :: values = c_null_ptr
    end type

    ! A device: flash_device_report of flash.h. flash_text makes a text of its pointers.
    type, bind(c) :: flash_device_report
        type(c_ptr) :: id, name, vendor, version, kind
        integer(c_int64_t) :: memory_bytes
        integer(c_int32_t) :: threads
        integer(c_int32_t) :: host_memory
    end type

    ! An agent that listens: flash_agent_report of flash.h. flash_text makes a text of its pointers.
    type, bind(c) :: flash_agent_report
        type(c_ptr) :: name, key
        real(c_double) :: uptime_s
        integer(c_int32_t) :: pid
        integer(c_int32_t) :: clients
    end type

    ! A program that uses one: flash_client_report of flash.h.
    type, bind(c) :: flash_client_report
        type(c_ptr) :: devices
        real(c_double) :: uptime_s
        integer(c_int64_t) :: launches, bytes
        integer(c_int32_t) :: pid, agent
    end type

    ! What a memory is: flash_memory_report of flash.h.
    type, bind(c) :: flash_memory_report
        type(c_ptr) :: type_name
        integer(c_size_t) :: element_size
        integer(c_int64_t) :: len
        integer(c_size_t) :: axes
        type(c_ptr) :: shape
    end type

    ! A number, or all of a memory, as an argument.
    interface flash_as
        module procedure as_i32, as_i64, as_f32, as_f64, as_array
    end interface

    ! A dimension of this many values from 0.
    interface flash_count
        module procedure count_i32, count_i64
    end interface

    interface
        function flash_runtime_device_count(runtime, count) bind(c) result(status)
            import
            type(c_ptr), value :: runtime
            integer(c_size_t), intent(out) :: count
            integer(c_int32_t) :: status
        end function

        function flash_runtime_device(runtime, index, report) bind(c) result(status)
            import
            type(c_ptr), value :: runtime
            integer(c_size_t), value :: index
            type(flash_device_report), intent(out) :: report
            integer(c_int32_t) :: status
        end function

        function flash_agent_here() bind(c) result(status)
            import
            integer(c_int32_t) :: status
        end function

        function flash_runtime_close(runtime) bind(c) result(status)
            import
            type(c_ptr), value :: runtime
            integer(c_int32_t) :: status
        end function

        function flash_agents_list(agents) bind(c) result(status)
            import
            type(c_ptr), intent(out) :: agents
            integer(c_int32_t) :: status
        end function

        function flash_agents_count(agents, count) bind(c) result(status)
            import
            type(c_ptr), value :: agents
            integer(c_size_t), intent(out) :: count
            integer(c_int32_t) :: status
        end function

        function flash_agents_agent(agents, index, report) bind(c) result(status)
            import
            type(c_ptr), value :: agents
            integer(c_size_t), value :: index
            type(flash_agent_report), intent(out) :: report
            integer(c_int32_t) :: status
        end function

        function flash_agents_client(agents, index, client, report) bind(c) result(status)
            import
            type(c_ptr), value :: agents
            integer(c_size_t), value :: index, client
            type(flash_client_report), intent(out) :: report
            integer(c_int32_t) :: status
        end function

        function flash_agents_free(agents) bind(c) result(status)
            import
            type(c_ptr), value :: agents
            integer(c_int32_t) :: status
        end function

        ! A text for flash_text, then for flash_text_free.
        function flash_found_c(settings, json) bind(c, name='flash_found') result(status)
            import
            type(c_ptr), value :: settings
            type(c_ptr), intent(out) :: json
            integer(c_int32_t) :: status
        end function

        subroutine flash_text_free(text) bind(c)
            import
            type(c_ptr), value :: text
        end subroutine

        function flash_memory_describe(memory, report) bind(c) result(status)
            import
            type(c_ptr), value :: memory
            type(flash_memory_report), intent(out) :: report
            integer(c_int32_t) :: status
        end function

        ! For c_f_pointer.
        function flash_memory_map_read(memory, begin, past, data) bind(c) result(status)
            import
            type(c_ptr), value :: memory
            integer(c_int64_t), value :: begin, past
            type(c_ptr), intent(out) :: data
            integer(c_int32_t) :: status
        end function

        ! For c_f_pointer.
        function flash_memory_map_write(memory, data) bind(c) result(status)
            import
            type(c_ptr), value :: memory
            type(c_ptr), intent(out) :: data
            integer(c_int32_t) :: status
        end function

        function flash_memory_unmap(memory, data) bind(c) result(status)
            import
            type(c_ptr), value :: memory, data
            integer(c_int32_t) :: status
        end function

        function flash_memory_free(memory) bind(c) result(status)
            import
            type(c_ptr), value :: memory
            integer(c_int32_t) :: status
        end function

        function flash_kernel_free(kernel) bind(c) result(status)
            import
            type(c_ptr), value :: kernel
            integer(c_int32_t) :: status
        end function

        function flash_pipeline_create(runtime, pipeline) bind(c) result(status)
            import
            type(c_ptr), value :: runtime
            type(c_ptr), intent(out) :: pipeline
            integer(c_int32_t) :: status
        end function

        function flash_pipeline_len(pipeline, count) bind(c) result(status)
            import
            type(c_ptr), value :: pipeline
            integer(c_size_t), intent(out) :: count
            integer(c_int32_t) :: status
        end function

        function flash_pipeline_exec(pipeline) bind(c) result(status)
            import
            type(c_ptr), value :: pipeline
            integer(c_int32_t) :: status
        end function

        function flash_pipeline_start(pipeline, handle) bind(c) result(status)
            import
            type(c_ptr), value :: pipeline
            type(c_ptr), intent(out) :: handle
            integer(c_int32_t) :: status
        end function

        function flash_pipeline_free(pipeline) bind(c) result(status)
            import
            type(c_ptr), value :: pipeline
            integer(c_int32_t) :: status
        end function

        function flash_handle_wait(handle) bind(c) result(status)
            import
            type(c_ptr), value :: handle
            integer(c_int32_t) :: status
        end function

        function flash_handle_test(handle, nanoseconds, done) bind(c) result(status)
            import
            type(c_ptr), value :: handle
            integer(c_int64_t), value :: nanoseconds
            integer(c_int32_t), intent(out) :: done
            integer(c_int32_t) :: status
        end function

        function flash_handle_cancel(handle) bind(c) result(status)
            import
            type(c_ptr), value :: handle
            integer(c_int32_t) :: status
        end function

        function flash_handle_free(handle) bind(c) result(status)
            import
            type(c_ptr), value :: handle
            integer(c_int32_t) :: status
        end function
    end interface

    ! What the functions below make of texts and lists.
    interface
        function flash_last_error_c() bind(c, name='flash_last_error') result(text)
            import
            type(c_ptr) :: text
        end function

        function flash_status_name_c(status) bind(c, name='flash_status_name') result(text)
            import
            integer(c_int32_t), value :: status
            type(c_ptr) :: text
        end function

        function flash_runtime_open_c(key, settings, runtime) bind(c, name='flash_runtime_open') result(status)
            import
            type(c_ptr), value :: key, settings
            type(c_ptr), intent(out) :: runtime
            integer(c_int32_t) :: status
        end function

        function flash_runtime_with_c(runtime, options, with) bind(c, name='flash_runtime_with') result(status)
            import
            type(c_ptr), value :: runtime, options
            type(c_ptr), intent(out) :: with
            integer(c_int32_t) :: status
        end function

        function flash_type_define_c(name, size, alignment) bind(c, name='flash_type_define') result(status)
            import
            type(c_ptr), value :: name
            integer(c_size_t), value :: size, alignment
            integer(c_int32_t) :: status
        end function

        function flash_memory_create_c(type_name, axes, shape, data, memory) &
            bind(c, name='flash_memory_create') result(status)
            import
            type(c_ptr), value :: type_name, data
            integer(c_size_t), value :: axes
            integer(c_int64_t), intent(in) :: shape(*)
            type(c_ptr), intent(out) :: memory
            integer(c_int32_t) :: status
        end function

        function flash_kernel_find_c(runtime, name, kernel) bind(c, name='flash_kernel_find') result(status)
            import
            type(c_ptr), value :: runtime, name
            type(c_ptr), intent(out) :: kernel
            integer(c_int32_t) :: status
        end function

        function flash_kernel_launch_c(kernel, values, value_count, dimensions, dimension_count) &
            bind(c, name='flash_kernel_launch') result(status)
            import
            type(c_ptr), value :: kernel
            type(flash_value), intent(in) :: values(*)
            integer(c_size_t), value :: value_count, dimension_count
            type(flash_dimension), intent(in) :: dimensions(*)
            integer(c_int32_t) :: status
        end function

        function flash_pipeline_submit_c(pipeline, kernel, values, value_count, dimensions, dimension_count, &
            options) bind(c, name='flash_pipeline_submit') result(status)
            import
            type(c_ptr), value :: pipeline, kernel, options
            type(flash_value), intent(in) :: values(*)
            integer(c_size_t), value :: value_count, dimension_count
            type(flash_dimension), intent(in) :: dimensions(*)
            integer(c_int32_t) :: status
        end function

        function flash_strlen_c(text) bind(c, name='strlen') result(length)
            import
            type(c_ptr), value :: text
            integer(c_size_t) :: length
        end function
    end interface

contains

    ! A text of C, such as an id in a report.
    function flash_text(text) result(copy)
        type(c_ptr), intent(in) :: text
        character(len=:), allocatable :: copy
        character(kind=c_char), pointer :: letters(:)
        integer :: i
        call c_f_pointer(text, letters, [flash_strlen_c(text)])
        allocate (character(len=size(letters)) :: copy)
        do i = 1, size(letters)
            copy(i:i) = letters(i)
        end do
    end function

    ! A text for C, which ends with NUL. Empty if it is not there.
    subroutine flash_to_c(text, letters)
        character(len=*), intent(in), optional :: text
        character(kind=c_char), allocatable, intent(out) :: letters(:)
        integer :: i, n
        if (.not. present(text)) then
            allocate (letters(0))
            return
        end if
        n = len_trim(text)
        allocate (letters(n + 1))
        do i = 1, n
            letters(i) = text(i:i)
        end do
        letters(n + 1) = c_null_char
    end subroutine

    ! NULL of an empty one.
    function flash_pointer_c(letters) result(pointer)
        character(kind=c_char), intent(in), target :: letters(:)
        type(c_ptr) :: pointer
        pointer = c_null_ptr
        if (size(letters) > 0) pointer = c_loc(letters)
    end function

    function flash_last_error() result(text)
        character(len=:), allocatable :: text
        text = flash_text(flash_last_error_c())
    end function

    function flash_status_name(status) result(text)
        integer(c_int32_t), intent(in) :: status
        character(len=:), allocatable :: text
        text = flash_text(flash_status_name_c(status))
    end function

    function flash_runtime_open(key, runtime, settings) result(status)
        character(len=*), intent(in) :: key
        type(c_ptr), intent(out) :: runtime
        character(len=*), intent(in), optional :: settings
        integer(c_int32_t) :: status
        character(kind=c_char), allocatable, target :: key_c(:), settings_c(:)
        call flash_to_c(key, key_c)
        call flash_to_c(settings, settings_c)
        status = flash_runtime_open_c(flash_pointer_c(key_c), flash_pointer_c(settings_c), runtime)
    end function

    function flash_runtime_with(runtime, options, with) result(status)
        type(c_ptr), intent(in) :: runtime
        character(len=*), intent(in) :: options
        type(c_ptr), intent(out) :: with
        integer(c_int32_t) :: status
        character(kind=c_char), allocatable, target :: options_c(:)
        call flash_to_c(options, options_c)
        status = flash_runtime_with_c(runtime, flash_pointer_c(options_c), with)
    end function

    function flash_found(json, settings) result(status)
        type(c_ptr), intent(out) :: json
        character(len=*), intent(in), optional :: settings
        integer(c_int32_t) :: status
        character(kind=c_char), allocatable, target :: settings_c(:)
        call flash_to_c(settings, settings_c)
        status = flash_found_c(flash_pointer_c(settings_c), json)
    end function

    function flash_type_define(name, size, alignment) result(status)
        character(len=*), intent(in) :: name
        integer(c_size_t), intent(in) :: size, alignment
        integer(c_int32_t) :: status
        character(kind=c_char), allocatable, target :: name_c(:)
        call flash_to_c(name, name_c)
        status = flash_type_define_c(flash_pointer_c(name_c), size, alignment)
    end function

    function flash_memory_create(type_name, shape, memory, data) result(status)
        character(len=*), intent(in) :: type_name
        integer(c_int64_t), intent(in) :: shape(:)
        type(c_ptr), intent(out) :: memory
        type(c_ptr), intent(in), optional :: data
        integer(c_int32_t) :: status
        character(kind=c_char), allocatable, target :: type_c(:)
        type(c_ptr) :: from
        from = c_null_ptr
        if (present(data)) from = data
        call flash_to_c(type_name, type_c)
        status = flash_memory_create_c(flash_pointer_c(type_c), size(shape, kind=c_size_t), shape, from, memory)
    end function

    function flash_kernel_find(runtime, name, kernel) result(status)
        type(c_ptr), intent(in) :: runtime
        character(len=*), intent(in) :: name
        type(c_ptr), intent(out) :: kernel
        integer(c_int32_t) :: status
        character(kind=c_char), allocatable, target :: name_c(:)
        call flash_to_c(name, name_c)
        status = flash_kernel_find_c(runtime, flash_pointer_c(name_c), kernel)
    end function

    function flash_kernel_launch(kernel, values, dimensions) result(status)
        type(c_ptr), intent(in) :: kernel
        type(flash_value), intent(in) :: values(:)
        type(flash_dimension), intent(in) :: dimensions(:)
        integer(c_int32_t) :: status
        status = flash_kernel_launch_c(kernel, values, size(values, kind=c_size_t), &
            dimensions, size(dimensions, kind=c_size_t))
    end function

    function flash_pipeline_submit(pipeline, kernel, values, dimensions, options) result(status)
        type(c_ptr), intent(in) :: pipeline, kernel
        type(flash_value), intent(in) :: values(:)
        type(flash_dimension), intent(in) :: dimensions(:)
        character(len=*), intent(in), optional :: options
        integer(c_int32_t) :: status
        character(kind=c_char), allocatable, target :: options_c(:)
        call flash_to_c(options, options_c)
        status = flash_pipeline_submit_c(pipeline, kernel, values, size(values, kind=c_size_t), &
            dimensions, size(dimensions, kind=c_size_t), flash_pointer_c(options_c))
    end function

    pure function as_i32(x) result(value)
        integer(c_int32_t), intent(in) :: x
        type(flash_value) :: value
        value%kind = 2
        value%bits = int(x, c_int64_t)
    end function

    pure function as_i64(x) result(value)
        integer(c_int64_t), intent(in) :: x
        type(flash_value) :: value
        value%kind = 3
        value%bits = x
    end function

    pure function as_f32(x) result(value)
        real(c_float), intent(in) :: x
        type(flash_value) :: value
        value%kind = 9
        value%bits = int(transfer(x, 0_c_int32_t), c_int64_t)
    end function

    pure function as_f64(x) result(value)
        real(c_double), intent(in) :: x
        type(flash_value) :: value
        value%kind = 10
        value%bits = transfer(x, 0_c_int64_t)
    end function

    pure function as_array(memory) result(value)
        type(c_ptr), intent(in) :: memory
        type(flash_value) :: value
        value%kind = 17
        value%bits = transfer(memory, 0_c_int64_t)
    end function

    ! An unsigned number, which Fortran has not: its type in C by flash.h's number (FLASH_VALUE_U32 is 6,
    ! _U64 7, _USIZE 8; of smaller integers 0 and 1, 4 and 5), and its bits.
    pure function flash_as_number(kind, bits) result(value)
        integer(c_int32_t), intent(in) :: kind
        integer(c_int64_t), intent(in) :: bits
        type(flash_value) :: value
        value%kind = kind
        value%bits = bits
    end function

    ! The elements from begin, from 0, to before past.
    pure function flash_as_range(memory, begin, past) result(value)
        type(c_ptr), intent(in) :: memory
        integer(c_int64_t), intent(in) :: begin, past
        type(flash_value) :: value
        value%kind = 18
        value%bits = transfer(memory, 0_c_int64_t)
        value%begin = begin
        value%past = past
    end function

    ! A value of any type: both are read when the value is used, and the name ends with NUL.
    pure function flash_as_value(type_name, bytes) result(value)
        type(c_ptr), intent(in) :: type_name, bytes
        type(flash_value) :: value
        value%kind = 16
        value%bits = transfer(bytes, 0_c_int64_t)
        value%begin = transfer(type_name, 0_c_int64_t)
    end function

    pure function count_i32(count) result(dimension)
        integer(c_int32_t), intent(in) :: count
        type(flash_dimension) :: dimension
        dimension%count = int(count, c_int64_t)
    end function

    pure function count_i64(count) result(dimension)
        integer(c_int64_t), intent(in) :: count
        type(flash_dimension) :: dimension
        dimension%count = count
    end function

    ! This many values from start, step apart.
    pure function flash_range(start, step, count) result(dimension)
        integer(c_int64_t), intent(in) :: start, step, count
        type(flash_dimension) :: dimension
        dimension%start = start
        dimension%step = step
        dimension%count = count
    end function

    ! These values, which are read when the dimension is used.
    function flash_list(values) result(dimension)
        integer(c_int64_t), intent(in), target, contiguous :: values(:)
        type(flash_dimension) :: dimension
        dimension%values = c_loc(values)
        dimension%count = size(values, kind=c_int64_t)
    end function
end module
