// SPDX-License-Identifier: Apache-2.0
// Grammars as text, in the notation known from GBNF:
//
//   root  ::= "SELECT " name (", " name)* ";"    # the rule `root` is the whole output
//   name  ::= [a-z_] [a-z0-9_]{0,30}
//
// A rule goes on until the next `name ::=`. "…" and '…' are text (escapes \n \r \t \\ \" \' \[ \] \- \^, \xHH, \uHHHH,
// \UHHHHHHHH, all code points), [a-z] and [^a-z] one character, . any one, ( ) groups, | alternatives, * + ? {n} {n,}
// {n,m} repeats. A rule may begin with itself where that is written out directly (expr ::= expr "+" term | term).
#pragma once

#include <string_view>

#include "text/grammar/grammar.h"

namespace firstlight::text::grammar {

// Errors: kInvalidArgument with line and column.
Result<Grammar> parse_ebnf(std::string_view source);

}  // namespace firstlight::text::grammar
