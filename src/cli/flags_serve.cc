// SPDX-License-Identifier: Apache-2.0
// serve: its flags.
#include <CLI/CLI.hpp>

#include "cli/common_flags.h"

namespace firstlight::cli {
namespace {

void add_operation_flags(CLI::App* sub, ServeFlags& flags) {
  sub->add_option("--request-timeout", flags.request_timeout,
                  "seconds of one request, waiting included; a request may ask for fewer")
      ->check(seconds())
      ->check(positive())
      ->capture_default_str();
  sub->add_option("--drain-timeout", flags.drain_timeout, "seconds that a stop leaves to running requests")
      ->check(seconds())
      ->capture_default_str();
  add_bytes_flag(sub, "--max-body", flags.max_body, "bytes of one request's body", 1)->capture_default_str();
  sub->add_option("--max-connections", flags.max_connections)->check(whole_from(1))->capture_default_str();
  sub->add_option("--log-format", flags.log_format, "text or json: a line per request, on stderr")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  sub->add_flag("--trace-requests", flags.trace_requests,
                "keep the trace of every request, as 'X-Trace: 1' does of one (GET /v1/traces/ID)");
}

}  // namespace

void add_serve_verb(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* serve =
      add_verb(app, line, "serve", "OpenAI-compatible server", [&] { return verb_serve(common, line.serve); });
  add_model(serve, common);
  add_compute_flags(serve, common);
  add_invariant_flag(serve, common);
  add_speculate_flag(serve, line.serve.speculate);
  add_trace_flag(serve, common);
  add_chat_flag(serve, common);
  add_server_flags(serve, line.serve.host, line.serve.port, line.serve.api_key);
  serve
      ->add_option("--context", line.serve.context,
                   "tokens of prompt and output together (default: the model's, or what fits)")
      ->check(whole_from(1));
  add_chat_format_flag(serve, line.serve.chat_format);
  serve->add_option("--baseline", line.serve.baseline, "reproduce this golden pack before being ready");
  serve->add_option("--max-sequences", line.serve.max_sequences, "requests computed at one time")
      ->check(whole_from(1))
      ->capture_default_str();
  serve
      ->add_option("--max-waiting", line.serve.max_waiting,
                   "requests that may wait, each choice of one request as one; further ones get status 429")
      ->check(whole_from(1))
      ->capture_default_str();
  serve
      ->add_option("--step-tokens", line.serve.step_tokens, "tokens one step computes (default: all that a step takes)")
      ->check(whole_from(1));
  add_bytes_flag(serve, "--state-bytes", line.serve.state_bytes,
                 "for the state of all requests (default: what is free)", 1);
  serve->add_flag("--reserve", line.serve.reserve,
                  "let a request in only when there is room for its longest answer: nobody is ever put out");
  add_bytes_flag(serve, "--swap-memory", line.serve.swap_memory, "bytes of memory for requests put out", 0);
  add_bytes_flag(serve, "--swap-disk", line.serve.swap_disk, "bytes of a file for requests put out", 0);
  serve->add_option("--swap-folder", line.serve.swap_folder, "where that file is (default: the system's)")
      ->check(CLI::ExistingDirectory);
  serve->add_flag("--embeddings", line.serve.embeddings,
                  "answer /v1/embeddings too (default where the model's files are of sentence-transformers)");
  serve->add_option("--pooling", line.serve.pooling,
                    "of embeddings: last, mean, first or cls (default: as the files say, else last)");
  serve->add_flag("--no-normalise", line.serve.no_normalise, "leave embeddings as long as they are");
  serve->add_flag("--shorten-embeddings", line.serve.shorten_embeddings,
                  "the model was trained so that the first dimensions stand alone: allow fewer");
  serve->add_flag("--no-prefix-reuse", line.serve.no_prefix_reuse, "compute every prompt from its beginning");
  add_operation_flags(serve, line.serve);
}

}  // namespace firstlight::cli
