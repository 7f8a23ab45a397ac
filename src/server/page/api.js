// SPDX-License-Identifier: Apache-2.0
// The server's answers for the page: JSON, streams of events, and what went wrong in words.

import { settings } from "./settings.js";

export class ApiFault extends Error {
	constructor(message, status) {
		super(message);
		this.status = status;
	}
}

function inWords(status, message, retryAfter) {
	if (status === 401) return `The server asks for an API key (${message}). Give it in the settings.`;
	const again = retryAfter ? ` Try again in ${retryAfter} s.` : "";
	if (status === 429) return `The server has more requests than it takes: ${message}.${again}`;
	if (status === 503) return `The server cannot answer now: ${message}.${again}`;
	if (status === 504) return `The answer took too long: ${message}.`;
	return status >= 500 ? `The server failed: ${message}.` : `The server refused: ${message}.`;
}

// Addresses are relative, so that the page works below any path.
export async function ask(path, options = {}) {
	const headers = settings.key ? { Authorization: "Bearer " + settings.key } : {};
	if (options.body) headers["Content-Type"] = "application/json";
	let response;
	try {
		response = await fetch(path, { cache: "no-store", ...options, headers });
	} catch (fault) {
		if (fault.name === "AbortError") throw fault;
		throw new ApiFault("The server cannot be reached.", 0);
	}
	if (response.ok) return response;
	let message = response.statusText || "status " + response.status;
	try {
		const body = await response.json();
		message = body.error?.message ?? body.reason ?? message;
	} catch {
		// no JSON: a proxy in between, perhaps
	}
	throw new ApiFault(inWords(response.status, message.replace(/\.$/, ""), response.headers.get("Retry-After")), response.status);
}

// Calls take(chunk) for each event of a stream. A stream that ends without its end mark is a fault.
export async function stream(path, body, signal, take) {
	const response = await ask(path, { method: "POST", body: JSON.stringify(body), signal });
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	let received = "";
	for (;;) {
		let piece;
		try {
			piece = await reader.read();
		} catch (fault) {
			if (fault.name === "AbortError") throw fault;
			throw new ApiFault("The connection broke.", 0);
		}
		if (piece.done) throw new ApiFault("The answer broke off: the server ended the connection.", 0);
		received += piece.value;
		for (let end; (end = received.indexOf("\n\n")) >= 0; received = received.slice(end + 2)) {
			const data = received.slice(0, end).replace(/^data: ?/, "");
			if (data === "[DONE]") return;
			const chunk = JSON.parse(data);
			if (chunk.error) throw new ApiFault(inWords(500, chunk.error.message), 500);
			take(chunk);
		}
	}
}
