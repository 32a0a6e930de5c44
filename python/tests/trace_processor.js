// Perfetto's trace processor, as WebAssembly, behind the HTTP interface that its Python package speaks.
//
//   node trace_processor.js FOLDER      FOLDER holds engine_bundle.js and trace_processor.wasm
//
// Prints its port. The bundle is a browser's worker: it gets a port for messages, and what it fetches is read from
// FOLDER. Requests and replies are the messages of perfetto/protos/perfetto/trace_processor/trace_processor.proto.
"use strict";
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const vm = require("node:vm");

const folder = process.argv[2];
// Numbers of TraceProcessorMethod, and of the fields of TraceProcessorRpc that carry argument and result.
const ROUTES = {
  "/parse": { method: 1, argument: 101, result: 201 },
  "/notify_eof": { method: 2, result: 202 },
  "/query": { method: 3, argument: 103, result: 203 },
  "/status": { method: 8, result: 210 },
};

const varint = (number) => {
  const bytes = [];
  for (; number > 127; number = Math.floor(number / 128)) bytes.push((number % 128) | 128);
  return Buffer.from([...bytes, number]);
};
const delimited = (field, bytes) => Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);

/** All values of a length-delimited `field` in a message, one after the other. */
function values(message, field) {
  const found = [];
  let at = 0;
  const number = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = message[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const key = number();
    if (key % 8 === 0) number();
    else {
      const length = key % 8 === 2 ? number() : key % 8 === 1 ? 8 : 4;
      if (key === field * 8 + 2) found.push(message.subarray(at, at + length));
      at += length;
    }
  }
  return found;
}

/** What the bundle reads its code with. */
class FolderRequest {
  open(_method, url) {
    this.file = path.join(folder, path.basename(url));
  }
  send() {
    this.response = new Uint8Array(fs.readFileSync(this.file)).buffer;
    this.status = 200;
  }
}

/** Starts the processor; resolves to a function from the bytes of a request to those of its replies. */
function start() {
  globalThis.self = globalThis;
  globalThis.WorkerGlobalScope = class {};
  globalThis.XMLHttpRequest = FolderRequest;
  globalThis.location = { href: "http://localhost/engine_bundle.js" };
  process.type = "renderer"; // so that the bundle takes this for a browser
  console.log = console.warn = console.error = (line) => process.stderr.write(`${line}\n`);
  vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"));
  const replies = [];
  const port = { postMessage: (bytes) => replies.push(Buffer.from(bytes)) };
  globalThis.onmessage({ data: port });
  const ask = (request) => {
    replies.length = 0;
    port.onmessage({ data: new Uint8Array(request) });
    return Buffer.concat(replies);
  };
  // The bundle has its buffers once its own promises are kept.
  return new Promise((resolve) => setTimeout(() => resolve(ask), 10));
}

// Without it node prints the line of the bundle, which is all of it.
process.on("uncaughtException", (error) => {
  process.stderr.write(`${String(error.message).slice(0, 500)}\n`);
  process.exit(1);
});

start().then((ask) => {
  let sequence = 0;
  const server = http.createServer((request, response) => {
    const body = [];
    request.on("data", (bytes) => body.push(bytes));
    request.on("end", () => {
      const route = ROUTES[request.url];
      if (!route) return response.writeHead(404).end();
      const head = [Buffer.from([8]), varint(++sequence), Buffer.from([16, route.method])];
      if (route.argument) head.push(delimited(route.argument, Buffer.concat(body)));
      const messages = values(ask(delimited(1, Buffer.concat(head))), 1);
      // Parts of one result, put together, are that result: its fields are repeated.
      response.end(Buffer.concat(messages.flatMap((message) => values(message, route.result))));
    });
  });
  server.listen(0, "127.0.0.1", () => process.stdout.write(`${server.address().port}\n`));
});
