"""pack.py NAME: a file as a call of haveFile() (run.js), in UTF-16: 15 bits in each character, from 256 on."""
import gzip
import sys

packed = gzip.compress(sys.stdin.buffer.read(), 9, mtime=0)
pieces = []
for i in range(0, len(packed), 15):
    bits = int.from_bytes(packed[i:i + 15].ljust(15, b"\0"), "big")
    pieces += [chr((bits >> shift & 0x7fff) + 256) for shift in range(105, -1, -15)]
text = f'haveFile("{sys.argv[1]}", {len(packed)}, "' + "".join(pieces) + '");\n'
sys.stdout.buffer.write(text.encode("utf-16-le"))
