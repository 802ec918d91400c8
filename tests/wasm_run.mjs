// node --no-warnings wasm_run.mjs PROGRAM [FLAG..]: runs one of build/wasm/ in the current folder.
import { readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';
const [program, ...flags] = process.argv.slice(2);
const name = program.replace(/\.wasm$/, '');
const wasi = new WASI({ version: 'preview1', args: [name, ...flags], preopens: { '.': '.' } });
const { instance } = await WebAssembly.instantiate(readFileSync(program), { wasi_snapshot_preview1: wasi.wasiImport });
process.exitCode = wasi.start(instance);
