# serve.py FOLDER: shows the book to browsers of this machine, at the first port from 8000 on that is free.
import functools
import http.server
import sys

FIRST, LAST = 8000, 8099


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # a browser that went away before it had all


handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
for port in range(FIRST, LAST + 1):
    try:
        server = Server(("127.0.0.1", port), handler)
        break
    except OSError as error:
        why = error.strerror
else:
    sys.exit(f"book: error: no port from {FIRST} to {LAST} can be had: {why}\n"
             f"hint: pages can be opened as files, too: {sys.argv[1]}/index.html")
if port != FIRST:
    print(f"book: port {FIRST} is taken")
print(f"book: http://127.0.0.1:{port}/ until Ctrl-C", flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    print()
