// SPDX-License-Identifier: Apache-2.0
// What the server is doing: /metrics read once a second while this view is shown, every third else, so that there is
// something to show when it is. What a server does not tell is left out.

import { element, find, svg } from "./dom.js";

const KEPT = 120; // seconds that the charts show
const WINDOW = 60; // seconds behind a percentile
const SMOOTH = 5.5; // seconds behind a rate
const GAP = 10; // seconds without a sample that break a line
const samples = []; // {time (in seconds), metrics}
let timer = null;
let shown = false;

// The text format of Prometheus: name to [{labels, value}].
export function parseMetrics(text) {
	const metrics = new Map();
	for (const line of text.split("\n")) {
		const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
		if (!found) continue;
		const labels = {};
		for (const [, name, value] of (found[2] ?? "").matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
		const value = Number(found[3].replace(/Inf$/, "Infinity"));
		if (!metrics.has(found[1])) metrics.set(found[1], []);
		metrics.get(found[1]).push({ labels, value });
	}
	return metrics;
}

// Sum over all labels, or undefined where there is no such metric.
function total(metrics, name) {
	return metrics.get(name)?.reduce((sum, one) => sum + one.value, 0);
}

// The share-th part of what a histogram saw between two samples, linear within a bucket; undefined if it saw nothing.
export function quantile(before, after, name, share) {
	const sums = new Map();
	for (const [metrics, sign] of [[after, 1], [before, -1]]) {
		for (const { labels, value } of metrics?.get(name + "_bucket") ?? []) {
			const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
			sums.set(bound, (sums.get(bound) ?? 0) + sign * value);
		}
	}
	const buckets = [...sums].sort((a, b) => a[0] - b[0]);
	const wanted = share * (buckets.at(-1)?.[1] ?? 0);
	if (!(wanted > 0)) return undefined;
	let low = 0;
	let below = 0;
	for (const [bound, count] of buckets) {
		if (count >= wanted) return bound === Infinity ? low : low + ((bound - low) * (wanted - below)) / (count - below || 1);
		low = bound;
		below = count;
	}
	return low;
}

// Figures -------------------------------------------------------------------------------------------------------------

const digits = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));
const asCount = (value) => String(Math.round(value));
const asRate = (value) => (value === 0 ? "0" : digits(value)) + "/s";
const asTime = (value) => (value >= 1 ? digits(value) + " s" : digits(value * 1000) + " ms");
function asBytes(value) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let unit = 0;
	for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
	return (unit === 0 ? value : digits(value)) + " " + units[unit];
}

const gauge = (name) => (i) => total(samples[i].metrics, name);
// Per second, over the last few.
const change = (count) => (i) => {
	const from = samples.findIndex((one) => one.time >= samples[i].time - SMOOTH);
	const [before, after] = [count(samples[from].metrics), count(samples[i].metrics)];
	return from === i || after === undefined ? undefined : Math.max(0, (after - (before ?? 0)) / (samples[i].time - samples[from].time));
};
const rate = (name) => change((metrics) => total(metrics, name));
const share = (name, part) => (i) => {
	const from = samples.findIndex((one) => one.time >= samples[i].time - WINDOW);
	return from === i ? undefined : quantile(samples[from].metrics, samples[i].metrics, name, part);
};
// Answers to completions, good ones or others.
const outcome = (labels, good) => labels.route.includes("completions") && (labels.code === "200") === good;
const answers = (good) =>
	change((metrics) =>
		metrics.get("firstlight_http_requests_total")?.reduce((sum, { labels, value }) => sum + (outcome(labels, good) ? value : 0), 0),
	);
const difference = (name, less) => (i) => {
	const whole = total(samples[i].metrics, name);
	return whole === undefined ? undefined : Math.max(0, whole - (total(samples[i].metrics, less) ?? 0));
};

const CHARTS = [
	{ title: "Requests", unit: asCount, lines: [["running", gauge("firstlight_requests_running")], ["waiting", gauge("firstlight_requests_waiting")]] },
	{
		title: "Throughput, tokens",
		unit: asRate,
		lines: [["written", rate("firstlight_output_tokens_total")], ["read", rate("firstlight_prompt_tokens_total")]],
	},
	{
		title: "Time to first token",
		note: "of the last minute",
		unit: asTime,
		lines: [["p50", share("firstlight_time_to_first_token_seconds", 0.5)], ["p95", share("firstlight_time_to_first_token_seconds", 0.95)]],
	},
	{
		title: "Between tokens",
		note: "of the last minute",
		unit: asTime,
		lines: [["p50", share("firstlight_inter_token_seconds", 0.5)], ["p95", share("firstlight_inter_token_seconds", 0.95)]],
	},
	{
		title: "Answers",
		unit: asRate,
		lines: [["complete", answers(true)], ["refused or failed", answers(false)]],
	},
	{
		title: "Memory of states",
		unit: asBytes,
		lines: [
			["requests", difference("firstlight_state_bytes", "firstlight_state_reusable_bytes")],
			["kept prompts", gauge("firstlight_state_reusable_bytes")],
			["swapped out", gauge("firstlight_swap_bytes")],
		],
	},
];

// A chart's elements, made once; draw(chart) sets its lines.
function makeChart(chart) {
	chart.paths = chart.lines.map((_, k) => svg("path", { class: "line line-" + k, fill: "none", "vector-effect": "non-scaling-stroke" }));
	chart.areaPath = svg("path", { class: "area" });
	chart.picture = svg("svg", { viewBox: "0 0 120 40", preserveAspectRatio: "none", role: "img" }, chart.areaPath, ...chart.paths);
	chart.values = chart.lines.map(() => element("b", {}, "–"));
	chart.top = element("span", { class: "top" });
	const legend = chart.lines.map(([name], k) => element("span", { class: "line-" + k }, element("i"), name + " ", chart.values[k]));
	const head = element("h3", {}, chart.title, chart.note ? element("small", {}, " " + chart.note) : undefined);
	return element("section", { class: "card chart" }, head, element("p", { class: "legend" }, ...legend), element("div", { class: "plot" }, chart.picture, chart.top));
}

function draw(chart) {
	const series = chart.lines.map(([, value]) => samples.map((_, i) => value(i)));
	const largest = Math.max(0, ...series.flat().filter((value) => Number.isFinite(value)));
	const top = largest || 1;
	const x = (i) => (KEPT + samples[i].time - samples.at(-1).time).toFixed(1);
	const joins = (values, i) => i > 0 && Number.isFinite(values[i - 1]) && samples[i].time - samples[i - 1].time < GAP;
	const y = (value) => (39 - (37 * value) / top).toFixed(2);
	series.forEach((values, k) => {
		let path = "";
		values.forEach((value, i) => {
			if (Number.isFinite(value)) path += `${joins(values, i) ? "L" : "M"}${x(i)} ${y(value)}`;
		});
		chart.paths[k].setAttribute("d", path);
		const last = values.at(-1);
		chart.values[k].textContent = Number.isFinite(last) ? chart.unit(last) : "–";
		if (k > 0) return;
		const from = values.findIndex(Number.isFinite);
		const whole = from >= 0 && path.lastIndexOf("M") === 0 && Number.isFinite(last);
		chart.areaPath.setAttribute("d", whole ? `M${x(from)} 39${path.replace(/^M/, "L")}L${x(values.length - 1)} 39Z` : "");
	});
	chart.top.textContent = largest > 0 ? chart.unit(largest) : "";
	chart.picture.setAttribute("aria-label", `${chart.title}: ${chart.lines.map(([name], k) => `${name} ${chart.values[k].textContent}`).join(", ")}`);
}

// Numbers in a row, from the newest sample.
function numbers() {
	const { metrics } = samples.at(-1);
	const list = [];
	const add = (name, value, unit = asCount) => value !== undefined && list.push([name, unit(value)]);
	for (const { labels, value } of metrics.get("firstlight_memory_bytes") ?? []) add(`memory: ${(labels.kind ?? "all").replaceAll("_", " ")}`, value, asBytes);
	add("memory of the process", total(metrics, "process_resident_memory_bytes"), asBytes);
	add("states may take", total(metrics, "firstlight_state_capacity_bytes") || undefined, asBytes);
	const known = total(metrics, "firstlight_prefix_cache_hit_tokens_total") / total(metrics, "firstlight_prefix_cache_query_tokens_total");
	add("of prompts known already", known >= 0 ? known : undefined, (value) => (100 * value).toFixed(0) + " %");
	for (const [name, what] of [["time_to_first_token", "first token"], ["inter_token", "between tokens"]]) {
		const values = [0.5, 0.95].map((part) => quantile(null, metrics, `firstlight_${name}_seconds`, part));
		if (values[0] !== undefined) list.push([`${what}, p50 and p95`, values.map(asTime).join(", ")]);
	}
	add("requests ended", total(metrics, "firstlight_requests_total"));
	add("tokens written", total(metrics, "firstlight_output_tokens_total"));
	add("tokens read", total(metrics, "firstlight_prompt_tokens_total"));
	add("put out for want of room", total(metrics, "firstlight_preemptions_total"));
	add("connections", total(metrics, "firstlight_http_connections"));
	add("clients that left early", total(metrics, "firstlight_http_disconnects_total"));
	const failed = metrics.get("firstlight_http_requests_total")?.filter(({ labels }) => outcome(labels, false));
	add("refused or failed", failed?.reduce((sum, one) => sum + one.value, 0));
	return list;
}

let parts = null;

function build() {
	parts = {
		note: element("p", { class: "note", role: "status" }, "Reading…"),
		charts: element("div", { class: "cards" }, ...CHARTS.map(makeChart)),
		numbers: element("dl", { class: "card numbers" }),
	};
	find("live").append(element("h2", { class: "unseen" }, "Live view"), parts.note, parts.charts, parts.numbers);
}

function update() {
	for (const chart of CHARTS) draw(chart);
	parts.numbers.replaceChildren(...numbers().map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
	const told = samples.at(-1).metrics.has("firstlight_requests_running");
	setNote(told ? "" : "This server tells no figures of an engine.");
}

function setNote(text) {
	if (parts.note.textContent !== text) parts.note.textContent = text;
	parts.note.hidden = !text;
}

async function poll() {
	clearTimeout(timer);
	if (document.hidden) return;
	try {
		const response = await fetch("metrics", { cache: "no-store" });
		if (!response.ok) throw new Error("status " + response.status);
		samples.push({ time: performance.now() / 1000, metrics: parseMetrics(await response.text()) });
		while (samples[0].time < samples.at(-1).time - KEPT) samples.shift();
		if (shown) update();
	} catch {
		setNote("The server’s figures cannot be read; what is shown is the last that came.");
	}
	clearTimeout(timer);
	if (!document.hidden) timer = setTimeout(poll, shown ? 1000 : 3000);
}

export function startLive() {
	build();
	document.addEventListener("visibilitychange", poll);
}

export function showLive(on) {
	shown = on;
	poll();
}
