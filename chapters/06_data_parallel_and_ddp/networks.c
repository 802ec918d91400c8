// networks.c: see networks.h.
#include "networks.h"

#include "chapters/05_resnet18_concise/resnet18.h"

Module *lenet_modules(int num_classes) {
    return Sequential(Conv2d(1, 20, .kernel_size = 3), ReLU(), AvgPool2d(2),
                      Conv2d(20, 50, .kernel_size = 5), ReLU(), AvgPool2d(2), Flatten(),
                      Linear(800, 128), ReLU(), Linear(128, num_classes));
}

static Module *resnet18_of_gray_images(int num_classes) { return resnet18(num_classes, 1); }

const NetworkKind networks[NUM_NETWORKS] = {
    {"lenet", "LeNet", lenet_modules},
    {"resnet18", "ResNet-18", resnet18_of_gray_images},
};
