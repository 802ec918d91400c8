#!/bin/sh
# child.sh COMMAND [ARGUMENT..]: becomes the command, unless PARENT, the process that began it, has ended meanwhile: then
# `setpriv --pdeathsig`, which comes before this, was too late to hear of it. The command is the PARENT of what it begins so.
[ "$PPID" = "$PARENT" ] || exit 255
PARENT=$$
export PARENT
exec "$@"
