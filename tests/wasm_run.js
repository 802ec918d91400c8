// node --no-warnings wasm_run.js PROGRAM [FLAG..]: runs one of build/wasm/ in the current folder.
const { readFileSync } = require("node:fs");
const { WASI } = require("node:wasi");
const [program, ...flags] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args: [program.replace(/\.wasm$/, ""), ...flags], preopens: { ".": "." } });
WebAssembly.instantiate(readFileSync(program), { wasi_snapshot_preview1: wasi.wasiImport })
    .then(({ instance }) => { process.exitCode = wasi.start(instance); });
