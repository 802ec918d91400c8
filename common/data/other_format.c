// other_format.c: see other_format.h.
#include "other_format.h"
#include "common/base/error.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define FROM_PYTORCH "in PyTorch: safetensors.torch.save_file(net.state_dict(), \"w.safetensors\")"
#define FETCH        "what was fetched is not the file itself: fetch it again, by its own address"
#define UNPACK       "unpack it first"

// A file of this kind begins with some bytes and has some others soon after them.
static const struct {
    const char *begins, *has;
    OtherFormat format;
} formats[] = {
    {"PK\3\4",
     ".npy",
     {"a zip archive of NumPy arrays",
      "in Python: safetensors.numpy.save_file(dict(numpy.load(\"w.npz\")), \"w.safetensors\")",
      UNPACK}},
    {"PK\3\4", "", {"a zip archive, as torch.save() writes", FROM_PYTORCH, UNPACK}},
    {"\x93NUMPY", "", {"a NumPy array", FROM_PYTORCH, "give the original file"}},
    {"\x89HDF", "", {"HDF5, as Keras writes", FROM_PYTORCH, "give the original file"}},
    {"GGUF", "", {"GGUF", FROM_PYTORCH, "give the original file"}},
    {"\x1f\x8b", "", {"packed by gzip", UNPACK, "it was packed twice: unpack it once"}},
    {"BZh", "", {"packed by bzip2", UNPACK, UNPACK}},
    {"\xfd"
     "7zXZ",
     "",
     {"packed by xz", UNPACK, UNPACK}},
    {"\x28\xb5\x2f\xfd", "", {"packed by zstd", UNPACK, UNPACK}},
    {"7z\xbc\xaf", "", {"packed by 7-zip", UNPACK, UNPACK}},
    {"Rar!", "", {"packed by RAR", UNPACK, UNPACK}},
    {"version https://git-lfs",
     "",
     {"a pointer that git-lfs left in the file's place", "git lfs pull", "git lfs pull"}},
    {"<", "", {"a web page", FETCH, FETCH}},
    {"{", "", {"JSON text", "an index of several files? Save all in one: " FROM_PYTORCH, FETCH}},
};

static bool is_text(const char *first, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isprint((unsigned char)first[i]) && !isspace((unsigned char)first[i])) return false;
    return n > 0;
}

OtherFormat other_format(const char *first, size_t n) {
    // A pickle says its protocol, 2 to 5, and goes on with an instruction.
    if (n > 2 && first[0] == '\x80' && first[1] >= 2 && first[1] <= 5)
        return (OtherFormat){"a pickle, as old versions of torch.save() write", FROM_PYTORCH,
                             "give the original file"};
    size_t blanks = 0; // as web pages may begin
    while (blanks < n && isspace((unsigned char)first[blanks])) blanks++;
    const char *at = first + blanks;
    n -= blanks;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        size_t length = strlen(formats[i].begins);
        if (n >= length && memcmp(at, formats[i].begins, length) == 0 &&
            memmem(at, n, formats[i].has, strlen(formats[i].has)))
            return formats[i].format;
    }
    if (!is_text(at, n)) return (OtherFormat){0};
    size_t line = 0;
    while (line < n && at[line] != '\r' && at[line] != '\n') line++;
    return (OtherFormat){xprintf("text that begins '%.*s'", (int)line, at), FETCH, FETCH};
}
