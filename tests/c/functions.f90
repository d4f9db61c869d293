! A function that programs name at run time: y = a x + y.
module functions
  use iso_c_binding
  implicit none

  type, bind(c) :: flash_span
    integer(c_int32_t) :: struct_size, dimensions
    type(c_ptr) :: index
    integer(c_int64_t) :: count, step
    integer(c_int32_t) :: dimension, arg_count
    integer(c_int64_t) :: phase
  end type

  type, bind(c) :: flash_arg
    integer(c_int32_t) :: kind, access, space, element_size
    type(c_ptr) :: data, next
    integer(c_int64_t) :: buffer, len, row_len, flags
    type(c_ptr) :: strides
    type(c_ptr) :: part
  end type

contains

  function saxpy(span, args) result(status) bind(c, name="saxpy")
    type(flash_span), intent(in) :: span
    type(flash_arg), intent(in) :: args(0:2)
    integer(c_int) :: status
    real(c_float), pointer :: a, x(:), y(:)
    integer(c_int64_t), pointer :: first(:)
    integer(c_int64_t) :: item, i

    call c_f_pointer(args(0)%data, a)
    call c_f_pointer(args(1)%data, x, [args(1)%len])
    call c_f_pointer(args(2)%data, y, [args(2)%len])
    call c_f_pointer(span%index, first, [span%dimensions])
    do item = 0, span%count - 1
      i = first(1) + item * span%step + 1
      y(i) = y(i) + a * x(i)
    end do
    status = 0
  end function

end module
