// resnet18.c: the network; reads line for line like the book's. In the comments, (n,64,28,28) is a
// shape: images, channels, height, width.
#include "resnet18.h"

#include <stdio.h>

static Module *resnet_block(int in_channels, int out_channels, int num_residuals,
                            bool first_block) {
    Module *blk = Sequential(NULL);
    for (int i = 0; i < num_residuals; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        if (i == 0 && !first_block)
            add_module(blk, name,
                       Residual(in_channels, out_channels, .use_1x1conv = true, .strides = 2));
        else
            add_module(blk, name, Residual(out_channels, out_channels));
    }
    return blk;
}

Module *resnet18(int num_classes, int in_channels) {
    // This model uses a smaller convolution kernel, stride, and padding and removes the max-pooling
    // layer
    Module *net = // (n,1,28,28)
        Sequential(Conv2d(in_channels, 64, .kernel_size = 3, .stride = 1, .padding = 1),
                   BatchNorm2d(64), ReLU());                                // (n,64,28,28)
    add_module(net, "resnet_block1", resnet_block(64, 64, 2, true));        // (n,64,28,28)
    add_module(net, "resnet_block2", resnet_block(64, 128, 2, false));      // (n,128,14,14)
    add_module(net, "resnet_block3", resnet_block(128, 256, 2, false));     // (n,256,7,7)
    add_module(net, "resnet_block4", resnet_block(256, 512, 2, false));     // (n,512,4,4)
    add_module(net, "global_avg_pool", AdaptiveAvgPool2d(1, 1));            // (n,512,1,1)
    add_module(net, "fc", Sequential(Flatten(), Linear(512, num_classes))); // (n,10)
    return net;
}

Module *narrow_resnet18(int num_classes) {
    Module *net = Sequential(AvgPool2d(2), Conv2d(1, 8, .kernel_size = 3, .padding = 1),
                             BatchNorm2d(8), ReLU(), Residual(8, 8), Residual(8, 8));
    for (int in = 8; in < 64; in *= 2) {
        char name[32];
        snprintf(name, sizeof name, "to_%d", 2 * in);
        add_module(net, name,
                   Sequential(Residual(in, 2 * in, .use_1x1conv = true, .strides = 2),
                              Residual(2 * in, 2 * in)));
    }
    add_module(net, "fc", Sequential(AdaptiveAvgPool2d(1, 1), Flatten(), Linear(64, num_classes)));
    return net;
}
