-- SPDX-License-Identifier: Apache-2.0
-- The templates that specs share.
return {
  activation = require "std.activation",
  attention = require "std.attention",
  compressor = require "std.compressor",
  config = require "std.config",
  deepseek = require "std.deepseek",
  embedding = require "std.embedding",
  head = require "std.head",
  hyper = require "std.hyper",
  indexer = require "std.indexer",
  kimi = require "std.kimi",
  kinds = require "std.kinds",
  mask = require "std.mask",
  mixer = require "std.mixer",
  mlp = require "std.mlp",
  moe = require "std.moe",
  norm = require "std.norm",
  qwen_next = require "std.qwen_next",
  rope = require "std.rope",
  towers = require "std.towers",
  window = require "std.window",
}
