# What C++ does not know of a .cu file: launches, and shared memory whose size the launch says.
#   kernel<<<grid, block>>>(arguments)  ->  CUDASIM_KERNEL(kernel)(grid, block)(arguments)
s/\([A-Za-z_][A-Za-z_0-9:]*\(<[^<>]*>\)\{0,1\}\)<<</CUDASIM_KERNEL(\1)(/g
s/>>>(/)(/g
s/extern __shared__ \([A-Za-z_][A-Za-z_0-9 ]*\) \([A-Za-z_0-9]*\)\[\];/\1 *\2 = (\1 *)cudasim_dynamic_shared();/
