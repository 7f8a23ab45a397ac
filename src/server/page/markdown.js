// SPDX-License-Identifier: Apache-2.0
// Markdown to elements: paragraphs, headings, lists, tables, quotes, code, emphasis, links. There is no HTML in between
// and none is taken over: a tag in the text stays the text of a tag. Links go to http, https and mailto alone, and no
// picture is loaded. Work is bounded: whatever the text, each character is looked at a few times.

import { copyButton, element } from "./dom.js";

const MAX_DEPTH = 8; // of lists, quotes and emphasis in each other
const MAX_LABEL = 500; // characters of a link's text
const MAX_ADDRESS = 2000;
const PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

// Shows `text` in `container`. Called again with a longer text it leaves alone what has not changed.
export function showMarkdown(container, text) {
	const blocks = split(text.replace(/\r\n?/g, "\n").split("\n"), 0);
	blocks.forEach((block, i) => {
		const old = container.children[i];
		if (old && old.source === block.source) return;
		const made = block.make();
		made.source = block.source;
		if (old) old.replaceWith(made);
		else container.append(made);
	});
	while (container.children.length > blocks.length) container.lastChild.remove();
}

// Blocks ------------------------------------------------------------------------------------------------------------

const indentOf = (line) => line.length - line.trimStart().length;
const isBlank = (line) => line.trim() === "";
const isRule = (line) => indentOf(line) < 4 && /^(-{3,}|\*{3,}|_{3,})$/.test(line.replace(/[ \t]/g, ""));
const headingOf = (line) => /^ {0,3}(#{1,6})(?:[ \t]|$)/.exec(line);
const fenceOf = (line) => {
	const found = /^ {0,3}(`{3,}|~{3,})/.exec(line);
	return found && !(found[1][0] === "`" && line.slice(found[0].length).includes("`")) ? found : null;
};
const markerOf = (line) => {
	const found = /^( *)([-*+]|\d{1,9}[.)])( {1,4}|\t|$)/.exec(line);
	return found && !isRule(line)
		? { indent: found[1].length, width: found[0].length, ordered: /\d/.test(found[2]), number: parseInt(found[2], 10) }
		: null;
};
const cellsOf = (line) => {
	const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
	return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
};
const isTable = (lines, i) =>
	i + 1 < lines.length && lines[i].includes("|") && lines[i + 1].includes("-") &&
	cellsOf(lines[i + 1]).every((cell) => /^:?-+:?$/.test(cell)) &&
	cellsOf(lines[i + 1]).length === cellsOf(lines[i]).length;
const startsBlock = (lines, i) =>
	fenceOf(lines[i]) || headingOf(lines[i]) || isRule(lines[i]) || /^ {0,3}>/.test(lines[i]) || isTable(lines, i) ||
	(markerOf(lines[i]) && !(markerOf(lines[i]).number > 1)); // "2024. " within a paragraph is no list

// Lines to [{source, make}].
function split(lines, depth) {
	const blocks = [];
	for (let i = 0; i < lines.length; ) {
		if (isBlank(lines[i])) {
			i++;
			continue;
		}
		const [end, make] = readBlock(lines, i, depth);
		// The fence of a growing text counts as changed when it closes, so the source is all its lines.
		blocks.push({ source: lines.slice(i, end).join("\n"), make });
		i = end;
	}
	return blocks;
}

// The end of the block that begins at line i, and what makes its element.
function readBlock(lines, i, depth) {
	const line = lines[i];
	const fence = fenceOf(line);
	if (fence) return readFence(lines, i, fence);
	const heading = headingOf(line);
	if (heading) {
		const text = line.slice(heading[0].length).trim().replace(/(^|[ \t])#{1,20}$/, "");
		return [i + 1, () => inline(element("h" + Math.min(6, heading[1].length + 2)), text)];
	}
	if (isRule(line)) return [i + 1, () => element("hr")];
	if (depth < MAX_DEPTH) {
		if (/^ {0,3}>/.test(line)) return readQuote(lines, i, depth);
		if (markerOf(line)) return readList(lines, i, depth);
	}
	if (isTable(lines, i)) return readTable(lines, i);
	let end = i + 1;
	while (end < lines.length && !isBlank(lines[end]) && !startsBlock(lines, end)) end++;
	return [end, () => inline(element("p"), lines.slice(i, end).map((one) => one.trimStart()).join("\n"))];
}

function readFence(lines, i, fence) {
	const mark = fence[1];
	const indent = indentOf(lines[i]);
	let end = i + 1;
	const isEnd = (line) => indentOf(line) < 4 && line.trim().length >= mark.length && line.trim() === mark[0].repeat(line.trim().length);
	while (end < lines.length && !isEnd(lines[end])) end++;
	const code = lines.slice(i + 1, end).map((line) => line.slice(Math.min(indent, indentOf(line)))).join("\n");
	const language = lines[i].slice(fence[0].length).trim().split(/\s/)[0].slice(0, 30);
	return [
		Math.min(end + 1, lines.length),
		() =>
			element(
				"figure",
				{ class: "code" },
				element("figcaption", {}, element("span", {}, language || "text"), copyButton(code)),
				element("pre", { tabindex: "0" }, element("code", {}, code)),
			),
	];
}

function readQuote(lines, i, depth) {
	let end = i;
	while (end < lines.length && /^ {0,3}>/.test(lines[end])) end++;
	const inner = lines.slice(i, end).map((line) => line.replace(/^ {0,3}> ?/, ""));
	return [end, () => fill(element("blockquote"), inner, depth + 1)];
}

function readList(lines, i, depth) {
	const first = markerOf(lines[i]);
	const items = [];
	let offset = 0; // where the text of the current item begins
	let end = i;
	for (; end < lines.length; end++) {
		const line = lines[end];
		const marker = markerOf(line);
		if (marker && marker.indent <= first.indent + 1) {
			if (marker.ordered !== first.ordered) break;
			offset = marker.width;
			items.push([line.slice(offset)]);
		} else if (isBlank(line)) {
			let next = end + 1;
			while (next < lines.length && isBlank(lines[next])) next++;
			if (next === lines.length) break;
			const after = markerOf(lines[next]);
			const goesOn = after && after.indent <= first.indent + 1 ? after.ordered === first.ordered : indentOf(lines[next]) > first.indent + 1;
			if (!goesOn) break;
			items.at(-1).push("");
			end = next - 1;
		} else if (indentOf(line) > first.indent + 1) {
			items.at(-1).push(line.slice(Math.min(offset, indentOf(line))));
		} else if (isBlank(lines[end - 1]) || startsBlock(lines, end)) {
			break;
		} else {
			items.at(-1).push(line); // a paragraph goes on without its indent
		}
	}
	return [end, () => makeList(items, first, depth)];
}

function makeList(items, first, depth) {
	const list = element(first.ordered ? "ol" : "ul", first.ordered && first.number !== 1 ? { start: first.number } : {});
	for (const lines of items) {
		const item = fill(element("li"), lines, depth + 1);
		// A paragraph that begins an item is the item's own text, unless more paragraphs follow.
		const begin = item.firstElementChild;
		if (begin?.tagName === "P" && item.querySelectorAll(":scope > p").length === 1) begin.replaceWith(...begin.childNodes);
		list.append(item);
	}
	return list;
}

function readTable(lines, i) {
	let end = i + 2;
	while (end < lines.length && lines[end].includes("|") && !isBlank(lines[end])) end++;
	return [
		end,
		() => {
			const sides = cellsOf(lines[i + 1]).map((c) => (c.endsWith(":") ? (c.startsWith(":") ? "center" : "right") : ""));
			const row = (line, tag) => {
				const cells = cellsOf(line);
				return element("tr", {}, ...sides.map((side, k) => inline(element(tag, { class: side || undefined }), cells[k] ?? "")));
			};
			const body = lines.slice(i + 2, end).map((line) => row(line, "td"));
			const table = element("table", {}, element("thead", {}, row(lines[i], "th")), element("tbody", {}, ...body));
			return element("div", { class: "table", tabindex: "0" }, table);
		},
	];
}

function fill(parent, lines, depth) {
	parent.append(...split(lines, depth).map((block) => block.make()));
	return parent;
}

// Text in a block ------------------------------------------------------------------------------------------------------

function inline(parent, text, depth = 0, inLink = false) {
	let plain = "";
	const dead = new Set(); // marks that nothing closes from here on
	const add = (node) => {
		if (plain) parent.append(plain);
		plain = "";
		parent.append(node);
	};
	for (let i = 0; i < text.length; ) {
		const found = readInline(text, i, { depth, inLink, dead });
		if (found) {
			add(found.node);
			i = found.end;
		} else if (text[i] === "\\" && PUNCTUATION.includes(text[i + 1] ?? " ")) {
			plain += text[i + 1];
			i += 2;
		} else if ("`*_~".includes(text[i])) {
			const run = runAt(text, i); // as a whole, or its tail would be tried for a shorter mark
			plain += text.slice(i, i + run);
			i += run;
		} else {
			plain += text[i++];
		}
	}
	if (plain) parent.append(plain);
	return parent;
}

function runAt(text, i) {
	let end = i + 1;
	while (text[end] === text[i]) end++;
	return end - i;
}

function readInline(text, i, where) {
	switch (text[i]) {
		case "\n":
			return { node: element("br"), end: i + 1 };
		case "\\":
			return text[i + 1] === "\n" ? { node: element("br"), end: i + 2 } : null;
		case "`":
			return readCode(text, i, where.dead);
		case "*":
		case "_":
		case "~":
			return where.depth < MAX_DEPTH ? readEmphasis(text, i, where) : null;
		case "!":
			return text[i + 1] === "[" && !where.inLink ? readLink(text, i + 1, where.depth) : null;
		case "[":
			return where.inLink ? null : readLink(text, i, where.depth);
		case "<": {
			const address = /^<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/i.exec(text.slice(i, i + MAX_ADDRESS + 20));
			return address && !where.inLink && { node: link(address[1], address[1]), end: i + address[0].length };
		}
		case "h": {
			if (where.inLink || (i > 0 && /[\w/]/.test(text[i - 1]))) return null;
			const address = /^https?:\/\/[^\s<>"'`|*]{1,2000}/.exec(text.slice(i, i + MAX_ADDRESS));
			if (!address) return null;
			let bare = address[0];
			while (/[.,:;!?]$/.test(bare) || (bare.endsWith(")") && !bare.includes("("))) bare = bare.slice(0, -1);
			return { node: link(bare, bare), end: i + bare.length };
		}
		default:
			return null;
	}
}

function readCode(text, i, dead) {
	const run = runAt(text, i);
	if (dead.has("`" + run)) return null;
	for (let at = i + run; (at = text.indexOf("`", at)) >= 0; ) {
		const other = runAt(text, at);
		if (other === run) {
			let code = text.slice(i + run, at).replaceAll("\n", " ");
			if (code.startsWith(" ") && code.endsWith(" ") && code.trim()) code = code.slice(1, -1);
			return { node: element("code", {}, code), end: at + run };
		}
		at += other;
	}
	dead.add("`" + run);
	return null;
}

const isWord = (c) => c !== undefined && /[\p{L}\p{N}]/u.test(c);

function readEmphasis(text, i, { depth, inLink, dead }) {
	const mark = text[i];
	const run = runAt(text, i);
	const length = Math.min(run, mark === "~" ? 2 : 3);
	const after = text[i + run];
	if ((mark === "~" && run !== 2) || run > 3 || after === undefined || /\s/.test(after)) return null;
	if (mark === "_" && isWord(text[i - 1])) return null;
	const close = closerOf(text, i + run, mark, length, dead);
	if (close < 0) return null;
	const inner = text.slice(i + length, close);
	const tag = mark === "~" ? "del" : length === 1 ? "em" : "strong";
	const made = inline(element(tag), inner, depth + 1, inLink);
	const node = length === 3 ? element("em", {}, made) : made;
	return { node, end: close + length };
}

function closerOf(text, from, mark, length, dead) {
	if (dead.has(mark + length)) return -1;
	for (let at = from; (at = text.indexOf(mark, at)) >= 0; ) {
		const run = runAt(text, at);
		const fits = run >= length && !(length === 1 && run === 2); // two are a mark of their own
		const ends = !/\s/.test(text[at - 1]) && text[at - 1] !== "\\" && !(mark === "_" && isWord(text[at + run]));
		if (fits && ends) return at + run - length;
		at += run;
	}
	dead.add(mark + length);
	return -1;
}

// [text](address "title"); of a picture the same, since none is loaded.
function readLink(text, i, depth) {
	let open = 0;
	let close = i;
	for (; close < text.length && close < i + MAX_LABEL; close++) {
		if (text[close] === "\\") close++;
		else if (text[close] === "[") open++;
		else if (text[close] === "]" && --open === 0) break;
	}
	if (open !== 0 || text[close + 1] !== "(") return null;
	const rest = /^\(\s*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(text.slice(close + 1, close + MAX_ADDRESS));
	if (!rest || !isSafe(rest[1])) return null;
	const label = text.slice(i + 1, close);
	return { node: inline(link(rest[1]), label, depth + 1, true), end: close + 1 + rest[0].length };
}

function isSafe(address) {
	return /^(https?:\/\/|mailto:)/i.test(address);
}

function link(address, ...text) {
	return element("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow" }, ...text);
}
