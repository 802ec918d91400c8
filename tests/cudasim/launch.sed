# What C++ does not know of a .cu file: launches, and shared memory whose size the launch says.
#   kernel<<<grid, block>>>(arguments)  ->  CUDASIM_KERNEL(kernel)(grid, block)(arguments)
# All lines at once: clang-format puts long names and <<< on different ones. (A name's <...> has no < inside.)
:join
$!{
N
b join
}
s/\([A-Za-z_][A-Za-z_0-9:]*\(<[^<>]*>\)\{0,1\}\)\([ \n]*\)<<</CUDASIM_KERNEL(\1)\3(/g
s/>>>(/)(/g
s/extern __shared__ \(__align__([0-9]*) \)\{0,1\}\([A-Za-z_][A-Za-z_0-9 ]*\) \([A-Za-z_0-9]*\)\[\];/\2 *\3 = (\2 *)cudasim_dynamic_shared();/g
