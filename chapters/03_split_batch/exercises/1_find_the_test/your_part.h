// your_part.h: what the files of this exercise know of each other.
#pragma once

int first_wrong_minibatch(int images, int batch_size, int k);
int fewest_devices(int images, int batch_size);
