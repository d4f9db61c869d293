/*
 * flash.hpp: flash.h for C++17. Handles are freed by their destructors, errors are exceptions.
 *
 *     flash::runtime rt("ALL_ACCEL");
 *     flash::kernel saxpy(rt, "my.saxpy");
 *     flash::memory x(data), y = flash::memory::zeroed<float>({data.size()});
 *     saxpy.launch({2.0f, x, y}, {data.size()});
 *
 * What the functions do, and what is the caller's duty, is in flash.h.
 */
#ifndef FLASH_HPP
#define FLASH_HPP

#include "flash.h"

#include <array>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace flash {

// What went wrong: FLASH_STATUS_*, and the text of flash_last_error.
class error : public std::runtime_error {
public:
    explicit error(int status) : std::runtime_error(flash_last_error()), status_(status) {}
    int status() const noexcept { return status_; }

private:
    int status_;
};

// Throws what a function of flash.h returns, unless that is FLASH_STATUS_OK.
inline void check(int status)
{
    if (status != FLASH_STATUS_OK)
        throw error(status);
}

// At the beginning of main: this program may be started again as an agent of its own, for keys such as OPENCL@agent.
inline void agent_here()
{
    check(flash_agent_here());
}

// The name of an element type. Specialise it for a struct, after flash_type_define.
template <class T> struct type_name;
#define FLASH_TYPE_(type, name)                                   \
    template <> struct type_name<type> {                          \
        static std::string get() { return name; }                 \
    }
FLASH_TYPE_(int8_t, "i8");
FLASH_TYPE_(int16_t, "i16");
FLASH_TYPE_(int32_t, "i32");
FLASH_TYPE_(int64_t, "i64");
FLASH_TYPE_(uint8_t, "u8");
FLASH_TYPE_(uint16_t, "u16");
FLASH_TYPE_(uint32_t, "u32");
FLASH_TYPE_(uint64_t, "u64");
FLASH_TYPE_(float, "f32");
FLASH_TYPE_(double, "f64");
#undef FLASH_TYPE_
template <class T, size_t N> struct type_name<std::array<T, N>> {
    static std::string get() { return "[" + type_name<T>::get() + "; " + std::to_string(N) + "]"; }
};

// Frees a handle.
template <class T, int32_t (*Free)(T *)> struct freed {
    void operator()(T *handle) const noexcept { Free(handle); }
};
template <class T, int32_t (*Free)(T *)> using owned = std::unique_ptr<T, freed<T, Free>>;

class runtime {
public:
    explicit runtime(const std::string &key, const char *settings = nullptr)
    {
        flash_runtime *handle;
        check(flash_runtime_open(key.c_str(), settings, &handle));
        handle_.reset(handle);
    }
    flash_runtime *get() const noexcept { return handle_.get(); }

    // The same devices with options.
    runtime with(const char *options) const
    {
        flash_runtime *handle;
        check(flash_runtime_with(get(), options, &handle));
        return runtime(handle);
    }

    std::vector<flash_device_report> devices() const
    {
        size_t count;
        check(flash_runtime_device_count(get(), &count));
        std::vector<flash_device_report> reports(count);
        for (size_t i = 0; i < count; i++)
            check(flash_runtime_device(get(), i, &reports[i]));
        return reports;
    }

private:
    explicit runtime(flash_runtime *handle) : handle_(handle) {}
    owned<flash_runtime, flash_runtime_close> handle_;
};

// A mapping for reading, which ends with it, in its thread.
template <class T> class view {
public:
    view(const flash_memory *memory, uint64_t begin, uint64_t end) : memory_(memory), len_(end - begin)
    {
        check(flash_memory_map_read(memory, begin, end, &data_));
    }
    view(const view &) = delete;
    view &operator=(const view &) = delete;
    ~view() { flash_memory_unmap(memory_, data_); }
    const T *begin() const noexcept { return static_cast<const T *>(data_); }
    const T *end() const noexcept { return begin() + len_; }
    size_t size() const noexcept { return len_; }
    const T &operator[](size_t i) const noexcept { return begin()[i]; }

private:
    const flash_memory *memory_;
    const void *data_;
    size_t len_;
};

// A mapping for reading and writing, which ends with it, in its thread.
template <class T> class span {
public:
    span(const flash_memory *memory, uint64_t len) : memory_(memory), len_(len)
    {
        check(flash_memory_map_write(memory, &data_));
    }
    span(const span &) = delete;
    span &operator=(const span &) = delete;
    ~span() { flash_memory_unmap(memory_, data_); }
    T *begin() const noexcept { return static_cast<T *>(data_); }
    T *end() const noexcept { return begin() + len_; }
    size_t size() const noexcept { return len_; }
    T &operator[](size_t i) const noexcept { return begin()[i]; }

private:
    const flash_memory *memory_;
    void *data_;
    size_t len_;
};

class memory {
public:
    // A copy of the elements, as one axis.
    template <class T> explicit memory(const std::vector<T> &data) : memory(make<T>({data.size()}, data.data())) {}
    // Zeros, with these extents, axis 0 fastest.
    template <class T> static memory zeroed(std::initializer_list<uint64_t> shape) { return make<T>(shape, nullptr); }
    flash_memory *get() const noexcept { return handle_.get(); }

    // The number of elements.
    uint64_t size() const { return describe().len; }
    flash_memory_report describe() const
    {
        flash_memory_report report;
        check(flash_memory_describe(get(), &report));
        return report;
    }

    // All of it, mapped. The type is that of the elements.
    template <class T> view<T> read() const { return view<T>(get(), 0, elements<T>()); }
    template <class T> span<T> write() const { return span<T>(get(), elements<T>()); }

private:
    explicit memory(flash_memory *handle) : handle_(handle) {}
    template <class T> static memory make(std::initializer_list<uint64_t> shape, const void *data)
    {
        flash_memory *handle;
        check(flash_memory_create(type_name<T>::get().c_str(), shape.size(), shape.begin(), data, &handle));
        return memory(handle);
    }
    template <class T> uint64_t elements() const
    {
        flash_memory_report report = describe();
        if (type_name<T>::get() != report.type_name)
            throw std::invalid_argument("expected a mapping of " + std::string(report.type_name) + ", found one of "
                                        + type_name<T>::get());
        return report.len;
    }
    owned<flash_memory, flash_memory_free> handle_;
};

// An argument: a number, a memory, or what flash_as_range and flash_as_value give.
struct value : flash_value {
    value(int32_t x) : flash_value(flash_as_i32(x)) {}
    value(int64_t x) : flash_value(flash_as_i64(x)) {}
    value(uint32_t x) : flash_value(flash_as_u32(x)) {}
    value(uint64_t x) : flash_value(flash_as_u64(x)) {}
    value(float x) : flash_value(flash_as_f32(x)) {}
    value(double x) : flash_value(flash_as_f64(x)) {}
    value(const memory &x) : flash_value(flash_as_array(x.get())) {}
    value(flash_value x) : flash_value(x) {}
};

// A dimension: a count, or what flash_range and flash_list give.
struct dimension : flash_dimension {
    dimension(uint64_t x) : flash_dimension(flash_count(x)) {}
    dimension(flash_dimension x) : flash_dimension(x) {}
};

// Lists of them: `flash::value` and `flash::dimension` add nothing to what C has.
using values = std::initializer_list<value>;
using dimensions = std::initializer_list<dimension>;
static_assert(sizeof(value) == sizeof(flash_value) && sizeof(dimension) == sizeof(flash_dimension), "as in C");

class kernel {
public:
    kernel(const runtime &rt, const std::string &name)
    {
        flash_named_kernel *handle;
        check(flash_kernel_find(rt.get(), name.c_str(), &handle));
        handle_.reset(handle);
    }
    flash_named_kernel *get() const noexcept { return handle_.get(); }

    void launch(values arguments, dimensions space) const
    {
        check(flash_kernel_launch(get(), arguments.begin(), arguments.size(), space.begin(), space.size()));
    }

private:
    owned<flash_named_kernel, flash_kernel_free> handle_;
};

// A pipeline on its way.
class handle {
public:
    explicit handle(flash_handle *started) : handle_(started) {}
    void wait() const { check(flash_handle_wait(handle_.get())); }
    // True if it has finished, after at most this many nanoseconds.
    bool test(uint64_t nanoseconds = 0) const
    {
        int32_t done;
        check(flash_handle_test(handle_.get(), nanoseconds, &done));
        return done != 0;
    }
    void cancel() const { check(flash_handle_cancel(handle_.get())); }

private:
    owned<flash_handle, flash_handle_free> handle_;
};

class pipeline {
public:
    explicit pipeline(const runtime &rt)
    {
        flash_pipeline *handle;
        check(flash_pipeline_create(rt.get(), &handle));
        handle_.reset(handle);
    }
    flash_pipeline *get() const noexcept { return handle_.get(); }

    pipeline &submit(const kernel &of, values arguments, dimensions space, const char *options = nullptr)
    {
        check(flash_pipeline_submit(get(), of.get(), arguments.begin(), arguments.size(), space.begin(),
                                    space.size(), options));
        return *this;
    }
    void exec() const { check(flash_pipeline_exec(get())); }
    // It is empty afterwards.
    handle start()
    {
        flash_handle *started;
        check(flash_pipeline_start(get(), &started));
        return handle(started);
    }

private:
    owned<flash_pipeline, flash_pipeline_free> handle_;
};

} // namespace flash

#endif // FLASH_HPP
