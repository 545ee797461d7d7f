/* A driver's library that knows four GPUs, for machines without any: the third is cut into instances, the fourth is broken. */
#include <string.h>

typedef unsigned int uint;
typedef struct { uint version; unsigned long long total, reserved, free, used; } memory_v2;

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, GPU_IS_LOST = 15 };

static int device_of(void *handle) { return (int)(long)handle - 1; }

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlDeviceGetCount_v2(uint *count) { *count = 4; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(uint index, void **handle) {
    if (index > 3) return INVALID_ARGUMENT;
    if (index == 3) return GPU_IS_LOST;
    *handle = (void *)(long)(index + 1);
    return SUCCESS;
}

int nvmlDeviceGetName(void *handle, char *name, uint length) {
    (void)handle;
    strncpy(name, "NVIDIA H200", length);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2 *memory) {
    (void)handle;
    memory->total = 150754820096ULL;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(void *handle, uint *current, uint *pending) {
    if (device_of(handle) == 0) return NOT_SUPPORTED;
    *current = *pending = device_of(handle) == 2;
    return SUCCESS;
}
