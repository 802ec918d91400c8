// network_file.h: a network of nn.h in a file: safetensors with the names, shapes and types of
// PyTorch's state_dict of the same network.
#ifndef NETWORK_FILE_H
#define NETWORK_FILE_H

#include "common/tensor/nn.h"

// The copies of one device. Waits for it. die()s if that fails; then an old file stays as it was.
void save_parameters(Module *net, Device *device, const char *path);
// All parameters and buffers, for all devices that hold copies and those that will. die()s if the
// file does not hold just these names and shapes.
void load_parameters(Module *net, const char *path);

#endif
