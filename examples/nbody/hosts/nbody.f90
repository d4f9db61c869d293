! N-body in Fortran: nbody KEY [BODIES [STEPS]] prints the kinetic energy after each step.

module problem
    use, intrinsic :: iso_c_binding
    implicit none
    real(c_float), parameter :: gravity = 6.67259e-11, softening2 = 1e-3, dt = 0.1

    ! A Mersenne Twister; 32 bits without sign in 64.
    type :: twister
        integer(c_int64_t) :: state(0:623)
        integer :: at = 624
    end type

    integer(c_int64_t), parameter :: low = int(z'ffffffff', c_int64_t)

contains

    subroutine seed(t)
        type(twister), intent(out) :: t
        integer(c_int64_t) :: i, before
        t%state(0) = 42
        do i = 1, 623
            before = t%state(i - 1)
            t%state(i) = iand(1812433253_c_int64_t * ieor(before, ishft(before, -30)) + i, low)
        end do
    end subroutine

    ! A number between 0 and 1.
    subroutine draw(t, number)
        type(twister), intent(inout) :: t
        real(c_float), intent(out) :: number
        integer(c_int64_t) :: y
        integer :: i
        if (t%at == 624) then
            do i = 0, 623
                y = ior(iand(t%state(i), int(z'80000000', c_int64_t)), &
                    iand(t%state(mod(i + 1, 624)), int(z'7fffffff', c_int64_t)))
                t%state(i) = ieor(t%state(mod(i + 397, 624)), ishft(y, -1))
                if (btest(y, 0)) t%state(i) = ieor(t%state(i), int(z'9908b0df', c_int64_t))
            end do
            t%at = 0
        end if
        y = t%state(t%at)
        t%at = t%at + 1
        y = ieor(y, ishft(y, -11))
        y = ieor(y, iand(ishft(y, 7), int(z'9d2c5680', c_int64_t)))
        y = ieor(y, iand(ishft(y, 15), int(z'efc60000', c_int64_t)))
        y = ieor(y, ishft(y, -18))
        number = real(y, c_float) / 4294967296.0
    end subroutine

    subroutine generate(mass, pos, vel)
        real(c_float), intent(out) :: mass(:), pos(:, :), vel(:, :)
        type(twister) :: positions, velocities, masses
        integer :: i, axis
        call seed(positions)
        call seed(velocities)
        call seed(masses)
        do i = 1, size(mass)
            do axis = 1, 3
                call draw(positions, pos(axis, i))
                call draw(velocities, vel(axis, i))
                vel(axis, i) = (2.0 * vel(axis, i) - 1.0) * 1e-3
            end do
            call draw(masses, mass(i))
            mass(i) = real(size(mass), c_float) * mass(i)
        end do
    end subroutine

    subroutine report(step, mass, vel)
        integer, intent(in) :: step
        real(c_float), intent(in) :: mass(:), vel(:, :)
        real(c_double) :: doubled
        integer :: i
        doubled = 0
        do i = 1, size(mass)
            doubled = doubled + real(mass(i), c_double) * sum(real(vel(:, i), c_double)**2)
        end do
        print '(i0, 1x, es16.9)', step, 0.5 * doubled
    end subroutine
end module

program nbody
    use flash_host
    use problem
    implicit none
    character(len=256) :: key, number
    integer(c_int64_t) :: n = 16000
    integer :: steps = 10, i
    real(c_float), allocatable, target :: masses(:), positions(:, :), velocities(:, :)
    ! host
    type(c_ptr) :: rt, accelerate, integrate, mass, pos, vel, acc, step
    ! end host
    key = 'ALL_ACCEL'
    if (command_argument_count() > 0) call get_command_argument(1, key)
    call get_command_argument(2, number)
    if (number /= '') read (number, *) n
    call get_command_argument(3, number)
    if (number /= '') read (number, *) steps
    allocate (masses(n), positions(3, n), velocities(3, n))
    call generate(masses, positions, velocities)

    ! host
    call check(flash_runtime_open(key, rt))
    call check(flash_kernel_find(rt, 'flash.nbody.accelerate', accelerate))
    call check(flash_kernel_find(rt, 'flash.nbody.integrate', integrate))
    call check(flash_memory_create('f32', [n], mass, c_loc(masses)))
    call check(flash_memory_create('[f32; 3]', [n], pos, c_loc(positions)))
    call check(flash_memory_create('[f32; 3]', [n], vel, c_loc(velocities)))
    call check(flash_memory_create('[f32; 3]', [n], acc))
    call check(flash_pipeline_create(rt, step))
    call check(flash_pipeline_submit(step, accelerate, [flash_as(gravity), flash_as(softening2), &
        flash_as(pos), flash_as(mass), flash_as(acc)], [flash_count(n)]))
    call check(flash_pipeline_submit(step, integrate, [flash_as(dt), flash_as(acc), flash_as(pos), &
        flash_as(vel)], [flash_count(n)]))
    do i = 1, steps
        call check(flash_pipeline_exec(step))
        call observe(i, vel)
    end do
    ! end host

    call check(flash_pipeline_free(step))
    call check(flash_kernel_free(accelerate))
    call check(flash_kernel_free(integrate))
    call check(flash_memory_free(mass))
    call check(flash_memory_free(pos))
    call check(flash_memory_free(vel))
    call check(flash_memory_free(acc))
    call check(flash_runtime_close(rt))

contains

    ! Prints the energy of a step.
    subroutine observe(step, vel)
        integer, intent(in) :: step
        type(c_ptr), intent(in) :: vel
        real(c_float), pointer :: now(:, :)
        type(c_ptr) :: data
        call check(flash_memory_map_read(vel, 0_c_int64_t, n, data))
        call c_f_pointer(data, now, [3_c_int64_t, n])
        call report(step, masses, now)
        call check(flash_memory_unmap(vel, data))
    end subroutine

    ! Ends the program with the library's words.
    subroutine check(status)
        use, intrinsic :: iso_fortran_env, only: error_unit
        integer(c_int32_t), intent(in) :: status
        if (status /= flash_ok) then
            write (error_unit, '(2a)') 'nbody: ', flash_last_error()
            stop 1
        end if
    end subroutine
end program
