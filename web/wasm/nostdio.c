/* nostdio.c: vsnprintf() drags in stderr, and stderr three functions of WASI that would become imports of the module. The engine
 * prints nothing, so here they are, answering that there is no such file. */
#include <wasi/api.h>

__wasi_errno_t __wasi_fd_close(__wasi_fd_t fd)
{
    (void)fd;
    return __WASI_ERRNO_BADF;
}

__wasi_errno_t __wasi_fd_seek(__wasi_fd_t fd, __wasi_filedelta_t offset, __wasi_whence_t whence, __wasi_filesize_t *size)
{
    (void)fd, (void)offset, (void)whence, (void)size;
    return __WASI_ERRNO_BADF;
}

__wasi_errno_t __wasi_fd_write(__wasi_fd_t fd, const __wasi_ciovec_t *vectors, size_t count, __wasi_size_t *size)
{
    (void)fd, (void)vectors, (void)count, (void)size;
    return __WASI_ERRNO_BADF;
}
