/* Bytes as a client sends them: the parser of requests, and all that lies behind it. The first byte says in which pieces they are sent. */
#include "tests/fuzz/whole_server.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    whole_server_start("auto");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size < 2 || !whole_server_begin(bytes, size)) return 0;
    whole_server_exchange(bytes + 1, size - 1, bytes[0] < 128 ? 0 : bytes[0] - 127u);
    return 0;
}
