// SPDX-License-Identifier: Apache-2.0
#include "server/field_reader.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/json.h"

namespace firstlight::server {
namespace {

TEST(FieldReader, ReadsFieldsAndTakesNullForAbsent) {
  const Json json =
      Json::parse(R"({"b": true, "i": 3, "f": 2.5, "whole": 4.0, "s": "x", "n": null, "big": 9007199254740993})");
  FieldReader fields(json);
  EXPECT_TRUE(fields.boolean("b", false));
  EXPECT_EQ(fields.integer("i", 0, 0, 10), 3);
  EXPECT_EQ(fields.integer("whole", 0, 0, 10), 4);
  EXPECT_EQ(fields.integer("big", 0, 0, int64_t{1} << 60), 9007199254740993);
  EXPECT_EQ(fields.number("f", 0, 0, 10), 2.5);
  EXPECT_EQ(fields.string("s", ""), "x");
  EXPECT_EQ(fields.string("n", "default"), "default");
  EXPECT_EQ(fields.integer("absent", -1, 0, 10), -1) << "a default may lie outside the range";
  EXPECT_EQ(fields.find("n"), nullptr);
  fields.finish();
  EXPECT_TRUE(fields.ok()) << fields.error().message;
}

ApiError error_of(std::string_view text, const std::function<void(FieldReader&)>& read) {
  const Json json = Json::parse(text);
  FieldReader fields(json, "a.");
  read(fields);
  return fields.error();
}

TEST(FieldReader, NamesTheFieldAtFault) {
  const auto message = [](const ApiError& error) {
    EXPECT_EQ(error.http_status, 400);
    return error.message;
  };
  EXPECT_EQ(message(error_of(R"({"x": "1"})", [](auto& f) { f.integer("x", 0, 0, 5); })),
            "a.x: a string, a number wanted");
  EXPECT_EQ(message(error_of(R"({"x": 1.5})", [](auto& f) { f.integer("x", 0, 0, 5); })),
            "a.x: 1.5, an integer wanted");
  EXPECT_EQ(message(error_of(R"({"x": 6})", [](auto& f) { f.integer("x", 0, 0, 5); })), "a.x: 6, 0 to 5 wanted");
  EXPECT_EQ(message(error_of(R"({"x": 1e300})", [](auto& f) { f.integer("x", 0, 0, 5); })),
            "a.x: 1e+300, 0 to 5 wanted");
  EXPECT_EQ(message(error_of(R"({"x": 1})", [](auto& f) { f.boolean("x", false); })),
            "a.x: a number, a boolean wanted");
  EXPECT_EQ(message(error_of(R"({"x": []})", [](auto& f) { f.string("x", ""); })), "a.x: an array, a string wanted");
  EXPECT_EQ(message(error_of(R"({"x": true})", [](auto& f) { f.number("x", 0, 0, 1); })),
            "a.x: a boolean, a number wanted");
  const ApiError unknown = error_of(R"({"x": 1})", [](auto& f) { f.finish(); });
  EXPECT_EQ(unknown.param, "a.x");
}

TEST(FieldReader, KeepsTheFirstFault) {
  const ApiError error = error_of(R"({"x": 1, "y": 2})", [](auto& f) {
    f.string("x", "");
    f.string("y", "");
    f.finish();
  });
  EXPECT_EQ(error.param, "a.x");
}

TEST(FieldReader, RefusesByName) {
  const ApiError refused = error_of(R"({"x": 1})", [](auto& f) { f.refuse({"w", "x"}, "not yet"); });
  EXPECT_EQ(refused.message, "a.x: not supported: not yet");
  EXPECT_EQ(refused.code, "unsupported");
  EXPECT_TRUE(error_of(R"({"x": null})", [](auto& f) { f.refuse({"x"}, ""); }).ok());
  EXPECT_TRUE(error_of(R"({"x": false})", [](auto& f) { f.accept_only("x", false, ""); }).ok());
  EXPECT_FALSE(error_of(R"({"x": true})", [](auto& f) { f.accept_only("x", false, ""); }).ok());
  EXPECT_TRUE(error_of(R"({"x": 1, "gone": null})", [](auto& f) {
                f.accept({"x"});
                f.finish();
              }).ok());
}

}  // namespace
}  // namespace firstlight::server
