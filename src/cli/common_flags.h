// SPDX-License-Identifier: Apache-2.0
// Flags that several verbs have, and the checks of their values. What they mean is in flags.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/command_line.h"

namespace CLI {
class Option;
}

namespace firstlight::cli {

// A verb with the flags that all have.
CLI::App* add_verb(CLI::App& app, CommandLine& line, const char* name, const char* what,
                   std::function<Result<int>()> verb);
void add_model(CLI::App* sub, CommonFlags& common);
void add_spec_flags(CLI::App* sub, CommonFlags& common);
void add_compute_flags(CLI::App* sub, CommonFlags& common);  // those of the spec too
void add_invariant_flag(CLI::App* sub, CommonFlags& common);
void add_speculate_flag(CLI::App* sub, std::string& speculate);
void add_chat_flag(CLI::App* sub, CommonFlags& common);
void add_chat_variables_flag(CLI::App* sub, CommonFlags& common);
CLI::Option* add_chat_format_flag(CLI::App* sub, std::string& chat_format);
void add_trace_flag(CLI::App* sub, CommonFlags& common);
void add_server_flags(CLI::App* sub, std::string& host, int& port, std::string& api_key);

// Checks: what is wrong with the word, or "".
using WordCheck = std::function<std::string(const std::string&)>;
// A whole number of this range.
WordCheck whole_from(int64_t least, int64_t most = INT64_MAX);
// A number above 0, and no infinite one.
WordCheck positive();
// A time that ends: 0 to a year.
WordCheck seconds();
// Where a file can be written, or a folder made: found out before the work, not after it.
WordCheck writable_file();
WordCheck writable_folder();

// A number of bytes, `least` or more: 1000, 64MB, 2G, 1GiB; all units are powers of 1024.
template <typename Bytes>
CLI::Option* add_bytes_flag(CLI::App* sub, const char* name, Bytes& bytes, const char* what, int64_t least);

}  // namespace firstlight::cli
