// SPDX-License-Identifier: Apache-2.0
// What the user has set: kept by the browser, the key for this tab only. Empty means the server's own default.

import { find, say } from "./dom.js";

const FIELDS = ["system", "temperature", "top_p", "max_tokens", "seed", "stop", "tools"];
const KEPT = "firstlight.settings";
const KEY = "firstlight.key";

export const settings = { system: "", temperature: "", top_p: "", max_tokens: "", seed: "", stop: "", tools: "", key: "" };

function load() {
	try {
		const kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
		for (const name of FIELDS) if (typeof kept[name] === "string") settings[name] = kept[name];
		settings.key = sessionStorage.getItem(KEY) ?? "";
	} catch {
		// storage that is shut or spoilt: the defaults
	}
}

function keep() {
	try {
		localStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(FIELDS.map((name) => [name, settings[name]]))));
		sessionStorage.setItem(KEY, settings.key);
	} catch {
		// then they last until the page is closed
	}
}

// The fields of a request. Texts of the form are numbers here; the server says what it does not take.
export function requestFields() {
	const fields = {};
	for (const name of ["temperature", "top_p", "max_tokens", "seed"]) {
		if (settings[name] !== "") fields[name] = Number(settings[name]);
	}
	const stops = settings.stop.split("\n").filter((one) => one !== "");
	if (stops.length) fields.stop = stops.map((one) => one.replaceAll("\\n", "\n"));
	if (settings.tools.trim()) fields.tools = JSON.parse(settings.tools);
	return fields;
}

// The browser checks numbers by the form's own bounds; this is what it cannot know. What is wrong, or "".
function faultOfTools(text) {
	try {
		return !text.trim() || Array.isArray(JSON.parse(text)) ? "" : "A JSON array is wanted.";
	} catch (fault) {
		return fault.message;
	}
}

export function startSettings(onChange) {
	load();
	const dialog = find("settings");
	const form = dialog.querySelector("form");
	find("open-settings").addEventListener("click", () => {
		for (const name of [...FIELDS, "key"]) form.elements[name].value = settings[name];
		form.elements.tools.setCustomValidity("");
		dialog.showModal();
	});
	find("reset-settings").addEventListener("click", () => {
		for (const name of FIELDS) form.elements[name].value = "";
		say("Settings are the server’s own again");
	});
	form.elements.tools.addEventListener("input", ({ target }) => target.setCustomValidity(faultOfTools(target.value)));
	form.addEventListener("submit", () => {
		for (const name of [...FIELDS, "key"]) settings[name] = form.elements[name].value;
		settings.key = settings.key.trim();
		keep();
		onChange();
	});
}
