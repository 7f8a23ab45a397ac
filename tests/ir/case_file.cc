// SPDX-License-Identifier: Apache-2.0
#include "case_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace firstlight::cases {
namespace {

const Section* find(const Case& c, std::string_view name) {
  for (const Section& section : c.sections) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

const std::string kNothing;

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \n");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \n") - first + 1);
}

void check_file(const std::filesystem::path& path, const std::function<std::string(const Case&)>& produce) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  auto cases = parse_cases(text.str());
  ASSERT_TRUE(cases.ok()) << path << ": " << cases.status().message();
  EXPECT_FALSE(cases->empty()) << path;
  bool changed = false;
  for (Case& c : *cases) {
    const std::string found = trimmed(produce(c)) + "\n";
    const auto out = std::find_if(c.sections.begin(), c.sections.end(),
                                  [](const Section& section) { return section.name == "out"; });
    const std::string wanted = out == c.sections.end() ? "" : trimmed(out->text) + "\n";
    EXPECT_EQ(found, wanted) << path.filename() << ": " << c.name;
    if (found == wanted) continue;
    changed = true;
    if (out == c.sections.end()) {
      c.sections.push_back({"out", "", found});
    } else {
      out->text = found;
    }
  }
  const char* update = std::getenv("FL_UPDATE_CASES");
  if (changed && update != nullptr && std::string_view(update) == "1") std::ofstream(path) << print_cases(*cases);
}

}  // namespace

bool Case::has(std::string_view section) const { return find(*this, section) != nullptr; }

const std::string& Case::argument(std::string_view section) const {
  const Section* found = find(*this, section);
  return found == nullptr ? kNothing : found->argument;
}

const std::string& Case::text(std::string_view section) const {
  const Section* found = find(*this, section);
  return found == nullptr ? kNothing : found->text;
}

std::vector<std::string> Case::list(std::string_view section) const {
  std::vector<std::string> items;
  std::stringstream in(argument(section));
  for (std::string item; std::getline(in, item, ',');) items.push_back(trimmed(item));
  return items;
}

Result<std::vector<Case>> parse_cases(std::string_view text) {
  std::vector<Case> cases;
  std::stringstream in{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.starts_with("=== ")) {
      cases.push_back({.name = line.substr(4), .sections = {}});
    } else if (line.starts_with("--- ") && !cases.empty()) {
      const size_t blank = line.find(' ', 4);
      cases.back().sections.push_back({.name = line.substr(4, blank == std::string::npos ? blank : blank - 4),
                                       .argument = blank == std::string::npos ? "" : trimmed(line.substr(blank)),
                                       .text = ""});
    } else if (!cases.empty() && !cases.back().sections.empty()) {
      cases.back().sections.back().text += line + "\n";
    } else if (!line.empty() && line[0] != '#') {
      return invalid_data("line " + std::to_string(number) + ": text outside a section");
    }
  }
  return cases;
}

std::string print_cases(const std::vector<Case>& cases) {
  std::string text;
  for (const Case& c : cases) {
    text += (text.empty() ? "=== " : "\n=== ") + c.name + "\n";
    for (const Section& section : c.sections) {
      text += "--- " + section.name + (section.argument.empty() ? "" : " " + section.argument) + "\n";
      if (!trimmed(section.text).empty()) text += trimmed(section.text) + "\n";
    }
  }
  return text;
}

void check_folder(const std::string& folder, const std::string& ending,
                  const std::function<std::string(const Case&)>& produce) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(FL_SOURCE_DIR) / folder)) {
    if (entry.path().extension() == ending) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  EXPECT_FALSE(files.empty()) << "no file " << ending << " in " << folder;
  for (const auto& file : files) check_file(file, produce);
}

}  // namespace firstlight::cases
