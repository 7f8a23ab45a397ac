// SPDX-License-Identifier: Apache-2.0
// Begins everything: the two views, the settings, and what the server says about itself.

import { modelOf, startChat, isBusy } from "./chat.js";
import { find } from "./dom.js";
import { showLive, startLive } from "./live.js";
import { startSettings } from "./settings.js";

const VIEWS = ["chat", "live"];

function show(view, focus) {
	for (const name of VIEWS) {
		const tab = find("tab-" + name);
		tab.setAttribute("aria-selected", name === view);
		tab.tabIndex = name === view ? 0 : -1;
		find(name).hidden = name !== view;
	}
	if (focus) find("tab-" + view).focus();
	history.replaceState(null, "", view === "chat" ? location.pathname : "#" + view);
	showLive(view === "live");
}

function startTabs() {
	for (const [i, name] of VIEWS.entries()) {
		const tab = find("tab-" + name);
		tab.addEventListener("click", () => show(name, false));
		tab.addEventListener("keydown", (event) => {
			const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
			if (event.key === "Home" || event.key === "End") show(event.key === "Home" ? VIEWS[0] : VIEWS.at(-1), true);
			else if (step) show(VIEWS[(i + step + VIEWS.length) % VIEWS.length], true);
			else return;
			event.preventDefault();
		});
	}
	addEventListener("hashchange", () => show(location.hash === "#live" ? "live" : "chat", false));
	show(location.hash === "#live" ? "live" : "chat", false);
}

// What stands in the way of an answer, over the page; "" for nothing.
function setBanner(text, bad) {
	const banner = find("banner");
	if (banner.textContent !== text) banner.textContent = text;
	banner.hidden = !text;
	banner.classList.toggle("bad", bad);
	find("ready-dot").className = text ? (bad ? "bad" : "soon") : "good";
}

async function checkServer() {
	let delay = 2000;
	try {
		const response = await fetch("ready", { cache: "no-store" });
		const ready = await response.json();
		if (!ready.ready) {
			setBanner(`Not ready: ${ready.reason}.`, false);
		} else if (await checkModel()) {
			setBanner("", false);
			delay = 10000;
		}
	} catch {
		setBanner("The server cannot be reached.", true);
	}
	setTimeout(checkServer, delay);
}

async function checkModel() {
	try {
		const model = await modelOf();
		find("model-name").textContent = model.id;
		find("model").title = `${model.id}, ${model.max_model_len} tokens of context`;
		return true;
	} catch (fault) {
		find("model-name").textContent = "";
		setBanner(fault.message, true);
		return false;
	}
}

startSettings(checkModel);
startChat();
startLive();
startTabs();
checkServer();
addEventListener("beforeunload", (event) => {
	if (isBusy()) event.preventDefault();
});
