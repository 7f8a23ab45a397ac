// SPDX-License-Identifier: Apache-2.0
// The conversation: what was said, what is being said, and what can be done with it. Kept for this tab.

import { ask, stream } from "./api.js";
import { copyButton, element, find, say } from "./dom.js";
import { showMarkdown } from "./markdown.js";
import { requestFields, settings } from "./settings.js";

const KEPT = "firstlight.chat";
let messages = []; // {role, content, reasoning?, calls?, stats?, fault?}
let running = null; // the AbortController of the answer that is being written

export const isBusy = () => running !== null;

export function startChat() {
	try {
		messages = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
	} catch {
		messages = [];
	}
	const input = find("input");
	find("composer").addEventListener("submit", (event) => {
		event.preventDefault();
		const text = input.value.trim();
		if (!text || running) return;
		input.value = "";
		grow(input);
		messages.push({ role: "user", content: text });
		answer();
	});
	input.addEventListener("input", () => grow(input));
	input.addEventListener("keydown", (event) => sendOnEnter(event, () => find("composer").requestSubmit()));
	find("stop").addEventListener("click", stop);
	find("new-chat").addEventListener("click", () => {
		stop();
		messages = [];
		keep();
		drawAll();
		say("New chat");
		input.focus();
	});
	document.addEventListener("keydown", (event) => {
		if (event.key !== "Escape" || !running || find("settings").open) return;
		event.preventDefault();
		stop();
	});
	drawAll();
	input.focus({ preventScroll: true });
}

export function stop() {
	running?.abort();
}

function sendOnEnter(event, send) {
	if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
	event.preventDefault();
	send();
}

function grow(area) {
	area.style.height = "auto";
	area.style.height = area.scrollHeight + 2 + "px";
}

function keep() {
	try {
		sessionStorage.setItem(KEPT, JSON.stringify(messages));
	} catch {
		// too long to be kept: it lasts until the page is closed
	}
}

// What the model is told of what was said. Answers that failed have said nothing.
function history() {
	const list = settings.system.trim() ? [{ role: "system", content: settings.system }] : [];
	for (const { role, content, calls } of messages) {
		if (role === "user" || content) list.push({ role, content });
		else if (calls?.length) list.push({ role, content: null, tool_calls: calls });
	}
	return list;
}

async function answer() {
	const said = { role: "assistant", content: "", reasoning: "", calls: [], stats: null };
	const watch = new AbortController();
	running = watch;
	const body = { messages: history(), stream: true, stream_options: { include_usage: true } };
	messages.push(said);
	drawAll();
	setBusy(true);
	say("Waiting for the answer");
	const begin = performance.now();
	const times = { first: 0, last: 0, pieces: 0 };
	try {
		Object.assign(body, requestFields());
		await stream("v1/chat/completions", body, watch.signal, (chunk) => {
			takeChunk(said, chunk, times);
			drawSoon(said);
		});
	} catch (fault) {
		if (fault.name === "AbortError") said.stopped = true;
		else said.fault = fault.message;
	}
	said.stats = statsOf(said, times, begin);
	if (running === watch) running = null;
	if (!messages.includes(said)) return; // a new chat has begun
	keep();
	drawAll();
	setBusy(isBusy());
	say(said.fault ?? (said.stopped ? "Stopped" : "The answer is complete"));
}

function takeChunk(said, chunk, times) {
	if (chunk.usage) said.usage = chunk.usage;
	const choice = chunk.choices[0];
	if (!choice) return;
	const { content, reasoning_content, tool_calls } = choice.delta;
	if (content || reasoning_content || tool_calls) {
		times.last = performance.now();
		times.first ||= times.last;
		times.pieces++;
	}
	said.content += content ?? "";
	said.reasoning += reasoning_content ?? "";
	for (const call of tool_calls ?? []) {
		const known = (said.calls[call.index] ??= { id: "", type: "function", function: { name: "", arguments: "" } });
		if (call.id) known.id = call.id;
		if (call.function?.name) known.function.name += call.function.name;
		if (call.function?.arguments) known.function.arguments += call.function.arguments;
	}
	if (choice.finish_reason) said.finish = choice.finish_reason;
}

function statsOf(said, times, begin) {
	const parts = [];
	const count = said.usage?.completion_tokens;
	if (count !== undefined) parts.push(`${count} ${count === 1 ? "token" : "tokens"}`);
	else if (times.pieces) parts.push(`about ${times.pieces} tokens`);
	const seconds = (times.last - times.first) / 1000;
	const tokens = (count ?? times.pieces) - 1;
	if (seconds > 0.005 && tokens > 0) parts.push(`${(tokens / seconds).toFixed(tokens / seconds < 10 ? 1 : 0)} tokens/s`);
	if (times.first) parts.push(`first after ${((times.first - begin) / 1000).toFixed(2)} s`);
	if (said.usage) {
		const cached = said.usage.prompt_tokens_details?.cached_tokens;
		parts.push(`prompt ${said.usage.prompt_tokens}${cached ? ` (${cached} known)` : ""}`);
	}
	if (said.stopped) parts.push("stopped");
	if (said.finish === "length") parts.push("cut off: no more tokens allowed");
	return parts.join(" · ");
}

function setBusy(busy) {
	find("log").setAttribute("aria-busy", busy); // read out when it is whole
	const hadFocus = document.activeElement === find("send") || document.activeElement === find("stop");
	find("send").hidden = busy;
	find("stop").hidden = !busy;
	if (hadFocus) find("input").focus();
}

// Drawing -------------------------------------------------------------------------------------------------------------

let due = false;

// Once per frame, however many pieces came.
function drawSoon(said) {
	if (due) return;
	due = true;
	requestAnimationFrame(() => {
		due = false;
		const card = find("log").lastElementChild;
		if (running && card && messages.at(-1) === said) keepingEnd(() => drawAnswer(card, said, true));
	});
}

// Stays at the end of the log if that is where the reader is.
function keepingEnd(draw) {
	const log = find("log");
	const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
	draw();
	if (atEnd) log.scrollTop = log.scrollHeight;
}

function drawAll() {
	const log = find("log");
	log.replaceChildren(...messages.map((said, i) => (said.role === "user" ? userCard(said, i) : answerCard(said, i))));
	if (!messages.length) log.append(element("div", { class: "empty" }, element("h2", {}, "Ask the model something."), element("p", {}, "It runs on this server alone; nothing is sent elsewhere.")));
	log.scrollTop = log.scrollHeight;
}

function button(text, action, label) {
	return element("button", { type: "button", class: "small", onclick: action, "aria-label": label }, text);
}

function userCard(said, i) {
	const card = element("article", { class: "user", "aria-label": "You" }, element("p", { class: "said" }, said.content));
	card.append(element("footer", {}, button("Edit", () => edit(card, said, i), "Edit this message"), copyButton(said.content)));
	return card;
}

function edit(card, said, i) {
	if (running) return;
	const area = element("textarea", { "aria-label": "Message", rows: 2 });
	area.value = said.content;
	const save = () => {
		if (running || !area.value.trim()) return;
		messages = messages.slice(0, i);
		messages.push({ role: "user", content: area.value.trim() });
		answer();
		find("input").focus();
	};
	const leave = () => {
		drawAll();
		find("input").focus();
	};
	area.addEventListener("keydown", (event) => {
		sendOnEnter(event, save);
		if (event.key === "Escape") leave();
	});
	area.addEventListener("input", () => grow(area));
	card.replaceChildren(area, element("footer", {}, button("Send", save), button("Leave as it was", leave)));
	grow(area);
	area.focus();
}

function answerCard(said, i) {
	const card = element("article", { class: "assistant", "aria-label": "Answer" });
	drawAnswer(card, said, false);
	if (running && i === messages.length - 1) return card;
	const again = button("Regenerate", () => {
		if (running) return;
		messages = messages.slice(0, i);
		answer();
		find("input").focus();
	}, "Regenerate this answer");
	const footer = element("footer", {}, again, copyButton(said.content));
	if (said.stats) footer.append(element("span", { class: "stats" }, said.stats));
	card.append(footer);
	return card;
}

// The parts of an answer in their order; each is made once and then changed.
function drawAnswer(card, said, growing) {
	const part = (name, make) => card.querySelector(":scope > ." + name) ?? card.appendChild(make());
	if (said.reasoning) {
		const fold = part("reasoning", () => element("details", { class: "reasoning" }, element("summary"), element("div", { class: "text" })));
		fold.firstElementChild.textContent = growing && !said.content ? "Reasoning…" : "Reasoning";
		showMarkdown(fold.lastElementChild, said.reasoning);
	}
	const text = part("text", () => element("div", { class: "text" }));
	showMarkdown(text, said.content);
	text.classList.toggle("waiting", running !== null && messages.at(-1) === said);
	for (const [k, call] of said.calls?.entries() ?? []) {
		const box = part("call-" + k, () => element("figure", { class: "code call-" + k }, element("figcaption"), element("pre", { tabindex: "0" }, element("code"))));
		box.firstElementChild.textContent = "Calls " + call.function.name;
		box.querySelector("code").textContent = pretty(call.function.arguments);
	}
	if (said.fault) part("fault", () => element("p", { class: "fault", role: "alert" }, said.fault));
}

function pretty(json) {
	try {
		return JSON.stringify(JSON.parse(json), null, 2);
	} catch {
		return json; // not whole yet
	}
}

// The model's name and what it takes; throws where the server does not tell.
export async function modelOf() {
	const list = await (await ask("v1/models")).json();
	return list.data[0];
}
