#!/bin/sh
# build.sh FOLDER COMPILE LINK: makes $OWN/program of $OWN/your_part.c, a part of the exercise FOLDER; $GIVEN and $LIBRARY
# are linked with it. COMPILE and LINK are commands (grader.mk). What is compiled is your_part.i, which the gate sees,
# too. Status 2: it does not compile, 3: the gate does not let it through, 4: it does not link; 126, 127: there is no
# compiler.
set -u
SOURCE=$OWN/your_part.c
export SOURCE
sh -c "$2 -save-temps=obj -c -o \"\$OWN/your_part.o\""
status=$?
[ $status -lt 126 ] || exit $status
[ $status = 0 ] || exit 2
sh tests/grader/gate.sh "$1" "$SOURCE" "$OWN/your_part.o" "$OWN/your_part.i" || exit 3
sh -c "$3" || exit 4
