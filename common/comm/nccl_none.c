// nccl_none.c: see nccl.h. In a program that was built without NCCL.
#include "nccl.h"

#include "common/base/error.h"

char *nccl_offer(Device *const devices[], int n) {
    (void)devices, (void)n;
    return xstrdup("!this program was built without it");
}
void nccl_begin(const char *who, double timeout) { (void)who, (void)timeout; }

static _Noreturn void nothing(void) {
    die("install NCCL (its header is nccl.h), then make again", "a call of NCCL, without NCCL");
}
void nccl_new_id(char id[NCCL_ID_BYTES]) {
    (void)id;
    nothing();
}
NcclGroup *nccl_open(const char id[NCCL_ID_BYTES], Device *const devices[], int n, int first,
                     int all) {
    (void)id, (void)devices, (void)n, (void)first, (void)all;
    nothing();
}
void nccl_close(NcclGroup *group) { (void)group; } // which is NULL

void nccl_all_reduce(NcclGroup *group, float *const data[], size_t n, int root) {
    (void)group, (void)data, (void)n, (void)root;
    nothing();
}
void nccl_broadcast(NcclGroup *group, float *const data[], size_t n, int root) {
    nccl_all_reduce(group, data, n, root);
}
void nccl_reduce_scatter(NcclGroup *group, float *const data[], size_t n, int root) {
    nccl_all_reduce(group, data, n, root);
}
void nccl_all_gather(NcclGroup *group, float *const data[], size_t n, int root) {
    nccl_all_reduce(group, data, n, root);
}

const char *nccl_error(void) { return NULL; }
void nccl_abort(void) {}
