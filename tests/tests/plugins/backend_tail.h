/* First field of flash_plugin_header: the bytes FLASHPLG. */
#define FLASH_MAGIC UINT64_C(0x474c504853414c46)

/* A text in an initialiser: `.key = FLASH_STR("MY_ACCEL")`. */
#define FLASH_STR(text) { (const uint8_t *)(text), sizeof(text) - 1 }

#if defined(_WIN32)
#define FLASH_EXPORT __declspec(dllexport)
#define FLASH_HIDDEN
#else
#define FLASH_EXPORT __attribute__((visibility("default")))
#define FLASH_HIDDEN __attribute__((visibility("hidden")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The host's interface. Defined by FLASH_PLUGIN or FLASH_KERNELS, set before anything else is called. */
extern FLASH_HIDDEN const flash_host_api *flash_host;

/* The exported symbol. */
FLASH_EXPORT const flash_plugin_header *flash_plugin_query(uint32_t host_abi_major, const flash_host_api *host);

/* A text in an expression. */
static inline flash_str flash_text(const char *text) {
    flash_str str = { (const uint8_t *)text, strlen(text) };
    return str;
}

/* 1 if `str` is `text`. */
static inline int flash_equal(flash_str str, const char *text) {
    return str.len == strlen(text) && (str.len == 0 || memcmp(str.ptr, text, str.len) == 0);
}

/* An error to return: `return flash_fail(FLASH_ERROR_UNSUPPORTED, "expected .., found ..");`. */
static inline flash_error *flash_fail(uint32_t code, const char *text) {
    return flash_host->error_create(code, flash_text(text));
}

/* A line for people on the program's standard error, unless the program has turned notices off; hosts before
 * interface version 0.7 have none. */
static inline void flash_notice(const char *text) {
    if (flash_host->struct_size > offsetof(flash_host_api, notice) && flash_host->notice)
        flash_host->notice(flash_text(text));
}

/* The plugin: a list of backends and one of kernel implementations, each of them may be NULL and 0. */
#define FLASH_PLUGIN_OF(plugin_name, plugin_version, the_backends, the_backend_count, the_kernels, the_kernel_count) \
    FLASH_HIDDEN const flash_host_api *flash_host; \
    FLASH_EXPORT const flash_plugin_header *flash_plugin_query(uint32_t host_abi_major, const flash_host_api *host) { \
        static const flash_plugin_header header = { \
            FLASH_MAGIC, sizeof(flash_plugin_header), FLASH_ABI_MAJOR, FLASH_ABI_MINOR, 0, FLASH_STR(plugin_name), \
            FLASH_STR(plugin_version), FLASH_STR("C, " __DATE__), (the_backends), (the_backend_count), \
            (the_kernels), (the_kernel_count) }; \
        if (!host) return NULL; \
        if (host_abi_major != FLASH_ABI_MAJOR) { \
            if (host->query_failed) \
                host->query_failed(flash_text("the plugin was built for another interface version: rebuild it")); \
            return NULL; \
        } \
        flash_host = host; \
        return &header; \
    }

/* A plugin of backends: `FLASH_PLUGIN("my-accel", "1.0", &api)`, or several `&api`. */
#define FLASH_PLUGIN(plugin_name, plugin_version, ...) \
    static const flash_backend_api *const flash_plugin_backends[] = { __VA_ARGS__ }; \
    FLASH_PLUGIN_OF(plugin_name, plugin_version, flash_plugin_backends, \
                    sizeof flash_plugin_backends / sizeof flash_plugin_backends[0], NULL, 0)

/* A plugin of kernels only: `FLASH_KERNELS("my-kernels", "1.0", &fast)`, or several. */
#define FLASH_KERNELS(plugin_name, plugin_version, ...) \
    static const flash_implementation *const flash_plugin_kernels[] = { __VA_ARGS__ }; \
    FLASH_PLUGIN_OF(plugin_name, plugin_version, NULL, 0, flash_plugin_kernels, \
                    sizeof flash_plugin_kernels / sizeof flash_plugin_kernels[0])

#ifdef __cplusplus
}
#endif
