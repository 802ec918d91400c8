// wasi.js: what a program of the book needs of an operating system, in a browser's Web Worker: WASI's preview 1, as far
// as programs use it. Its files are in memory. The worker is made of wasiWorker's text (run.js), as a page that was opened
// as a file may load no worker from one; so the function knows nothing of what stands around it.
//
// It is sent {module, args, files: {name: Uint8Array}}, and answers {text, error: whether it goes to standard error} as
// often as something is printed, {name, contents} when a small file is whole, and last {status, files: those that the
// program wrote}.
"use strict";

function wasiWorker(self) {
    const OK = 0, BADF = 8, EXIST = 20, INVAL = 28, ISDIR = 31, NOENT = 44, NOTDIR = 54, NOTEMPTY = 55;
    const CHARACTERS = 2, DIRECTORY = 3, REGULAR = 4;
    const ENVIRONMENT = ["FASHION_MNIST_DIR=images"];
    const CREATE = 1, MUST_BE_DIRECTORY = 2, EXCLUSIVE = 4, TRUNCATE = 8; // of path_open
    class Exit extends Error { constructor(status) { super("exit"); this.status = status; } }

    function run({ module, args, files }) {
        const entries = new Map([["", { type: DIRECTORY, number: 1 }]]); // by path, from the folder of the program on
        const open = [0, 1, 2].map((fd) => ({ entry: { type: CHARACTERS, number: fd }, fd })); // by number
        open.push({ entry: entries.get(""), path: "" });
        const decoders = [new TextDecoder(), new TextDecoder(), new TextDecoder()];
        let memory;

        const view = () => new DataView(memory.buffer);
        const bytesAt = (at, length) => new Uint8Array(memory.buffer, at, length);
        const textAt = (at, length) => new TextDecoder().decode(bytesAt(at, length));
        const pathAt = (at, length) => textAt(at, length).split("/").filter((part) => part && part !== ".").join("/");
        const folderOf = (path) => path.slice(0, Math.max(0, path.lastIndexOf("/")));

        function addFile(path, bytes) {
            const folder = folderOf(path);
            if (folder && !entries.has(folder)) entries.set(folder, { type: DIRECTORY, number: entries.size + 10 });
            entries.set(path, { type: REGULAR, number: entries.size + 10, bytes, size: bytes.length });
            return entries.get(path);
        }
        function writeTo(file, at, piece) {
            if (at + piece.length > file.bytes.length) {
                const larger = new Uint8Array(Math.max(2 * file.bytes.length, at + piece.length, 4096));
                larger.set(file.bytes.subarray(0, file.size));
                file.bytes = larger;
            }
            file.bytes.set(piece, at);
            file.size = Math.max(file.size, at + piece.length);
        }
        // Calls each(piece of memory) for the pieces of a list, until it returns false.
        function pieces(list, count, each) {
            for (let i = 0; i < count; i++)
                if (each(bytesAt(view().getUint32(list + 8 * i, true), view().getUint32(list + 8 * i + 4, true))) === false) return;
        }
        function writeStat(entry, at) {
            bytesAt(at, 64).fill(0);
            view().setBigUint64(at + 8, BigInt(entry.number), true);
            view().setUint8(at + 16, entry.type);
            view().setBigUint64(at + 24, 1n, true);
            view().setBigUint64(at + 32, BigInt(entry.size || 0), true);
        }
        function texts(list, array, buffer) { // what programs are started with
            for (const text of list) {
                const bytes = new TextEncoder().encode(text + "\0");
                view().setUint32(array, buffer, true);
                bytesAt(buffer, bytes.length).set(bytes);
                array += 4;
                buffer += bytes.length;
            }
            return OK;
        }
        function sizes(list, count, bytes) {
            view().setUint32(count, list.length, true);
            view().setUint32(bytes, list.reduce((sum, text) => sum + new TextEncoder().encode(text).length + 1, 0), true);
            return OK;
        }

        for (const [name, bytes] of Object.entries(files)) addFile(name, bytes);
        const given = new Set(entries.keys()); // the others are the program's own

        const wasi = {
            args_get: (array, buffer) => texts(args, array, buffer),
            args_sizes_get: (count, bytes) => sizes(args, count, bytes),
            environ_get: (array, buffer) => texts(ENVIRONMENT, array, buffer),
            environ_sizes_get: (count, bytes) => sizes(ENVIRONMENT, count, bytes),
            clock_time_get(clock, precision, at) {
                const now = performance.now() + (clock === 0 ? performance.timeOrigin : 0);
                view().setBigUint64(at, BigInt(Math.round(now * 1e6)), true);
                return OK;
            },
            random_get: (at, length) => { crypto.getRandomValues(bytesAt(at, length)); return OK; },
            proc_exit(status) { throw new Exit(status); },
            poll_oneoff(asked, events, count, happened) { // sleeps: nobody is waited for here
                view().setBigUint64(events, view().getBigUint64(asked, true), true);
                view().setBigUint64(events + 8, 0n, true);
                view().setUint32(happened, 1, true);
                return OK;
            },
            fd_close(fd) { return open[fd] ? (delete open[fd], OK) : BADF; },
            fd_fdstat_get(fd, at) {
                if (!open[fd]) return BADF;
                bytesAt(at, 24).fill(0);
                view().setUint8(at, open[fd].entry.type);
                // All rights, but for standard error not those to seek and to tell: so it is a terminal, and shows how long
                // a training still takes.
                view().setBigUint64(at + 8, fd === 2 ? 0x1fffffdbn : 0x1fffffffn, true);
                view().setBigUint64(at + 16, 0x1fffffffn, true);
                return OK;
            },
            fd_fdstat_set_flags: () => OK,
            fd_filestat_get(fd, at) { return open[fd] ? (writeStat(open[fd].entry, at), OK) : BADF; },
            fd_prestat_get(fd, at) {
                if (fd !== 3) return BADF;
                view().setUint32(at, 0, true);
                view().setUint32(at + 4, 1, true);
                return OK;
            },
            fd_prestat_dir_name(fd, at) { bytesAt(at, 1)[0] = 46; return OK; }, // "."
            fd_read(fd, list, count, done) {
                const file = open[fd];
                if (!file) return BADF;
                let got = 0;
                pieces(list, count, (piece) => {
                    const { bytes, size } = file.entry.bytes ? file.entry : { bytes: new Uint8Array(0), size: 0 };
                    const some = bytes.subarray(file.at || 0, Math.min(size, (file.at || 0) + piece.length));
                    piece.set(some);
                    file.at = (file.at || 0) + some.length;
                    got += some.length;
                    return some.length === piece.length;
                });
                view().setUint32(done, got, true);
                return OK;
            },
            fd_write(fd, list, count, done) {
                const file = open[fd];
                if (!file) return BADF;
                let written = 0, text = "";
                pieces(list, count, (piece) => {
                    written += piece.length;
                    if (file.entry.type === CHARACTERS) text += decoders[file.fd].decode(piece.slice(), { stream: true });
                    else {
                        writeTo(file.entry, file.at, piece);
                        file.at += piece.length;
                    }
                });
                if (text) self.postMessage({ text, error: file.fd === 2 });
                view().setUint32(done, written, true);
                return OK;
            },
            fd_seek(fd, offset, whence, at) {
                const file = open[fd];
                if (!file || file.entry.type !== REGULAR) return file ? INVAL : BADF;
                file.at = Number(offset) + [0, file.at, file.entry.size][whence];
                view().setBigUint64(at, BigInt(file.at), true);
                return OK;
            },
            fd_readdir(fd, buffer, length, cookie, used) {
                const folder = open[fd].path, names = [...entries.keys()].filter((path) => path && folderOf(path) === folder);
                let at = 0;
                for (let i = Number(cookie); i < names.length && at < length; i++) {
                    const name = new TextEncoder().encode(names[i].slice(folder ? folder.length + 1 : 0));
                    const entry = new Uint8Array(24 + name.length), fields = new DataView(entry.buffer);
                    fields.setBigUint64(0, BigInt(i + 1), true);
                    fields.setBigUint64(8, BigInt(entries.get(names[i]).number), true);
                    fields.setUint32(16, name.length, true);
                    fields.setUint8(20, entries.get(names[i]).type);
                    entry.set(name, 24);
                    const some = entry.subarray(0, length - at);
                    bytesAt(buffer + at, some.length).set(some);
                    at += some.length;
                }
                view().setUint32(used, at, true);
                return OK;
            },
            path_filestat_get(fd, flags, path, length, at) {
                const entry = entries.get(pathAt(path, length));
                return entry ? (writeStat(entry, at), OK) : NOENT;
            },
            path_open(fd, follow, at, length, how, rights, inherited, flags, result) {
                const path = pathAt(at, length);
                let entry = entries.get(path);
                if (!entry && !(how & CREATE)) return NOENT;
                if (!entry && (entries.get(folderOf(path)) || {}).type !== DIRECTORY) return NOENT;
                if (entry && how & EXCLUSIVE) return EXIST;
                if (entry && how & MUST_BE_DIRECTORY && entry.type !== DIRECTORY) return NOTDIR;
                if (entry && entry.type === DIRECTORY && how & (CREATE | TRUNCATE)) return ISDIR;
                if (!entry) entry = addFile(path, new Uint8Array(0));
                if (how & TRUNCATE) entry.size = 0;
                view().setUint32(result, open.push({ entry, path, at: flags & 1 ? entry.size : 0 }) - 1, true);
                return OK;
            },
            path_create_directory(fd, at, length) {
                const path = pathAt(at, length);
                if (entries.has(path)) return EXIST;
                if (!entries.has(folderOf(path))) return NOENT;
                entries.set(path, { type: DIRECTORY, number: entries.size + 10 });
                return OK;
            },
            path_rename(fd, from, length, to_fd, to, to_length) {
                const old = pathAt(from, length);
                if (!entries.has(old)) return NOENT;
                entries.set(pathAt(to, to_length), entries.get(old));
                entries.delete(old);
                given.delete(pathAt(to, to_length));
                const { bytes, size } = entries.get(pathAt(to, to_length)); // it is whole now
                if (size < 1e5) self.postMessage({ name: pathAt(to, to_length), contents: new TextDecoder().decode(bytes.slice(0, size)) });
                return OK;
            },
            path_unlink_file: (fd, at, length) => entries.delete(pathAt(at, length)) ? OK : NOENT,
            path_remove_directory: () => NOENT, // remove() tries this, too
            path_readlink: () => INVAL,
        };

        let status = 0;
        try {
            const instance = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi });
            memory = instance.exports.memory;
            instance.exports._start();
        } catch (error) {
            if (!(error instanceof Exit)) self.postMessage({ text: "\r\x1b[K" + args[0] + ": error: " + error.message + "\n", error: true });
            status = error instanceof Exit ? error.status : 134;
        }
        const written = {};
        for (const [path, { type, bytes, size }] of entries)
            if (type === REGULAR && !given.has(path)) written[path] = bytes.slice(0, size);
        self.postMessage({ status, files: written });
    }
    self.onmessage = ({ data }) => run(data);
}
