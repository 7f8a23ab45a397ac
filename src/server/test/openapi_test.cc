// SPDX-License-Identifier: Apache-2.0
// openapi.json against what the code says of itself: the routes, and every field that a parser asks for with its type,
// range and default. Answers of a live server are held against it by tests/e2e/openapi_test.py.
#include <gtest/gtest.h>

#include <set>

#include "base/json.h"
#include "server/api_service.h"
#include "server/embeddings.h"
#include "server/openai_api.h"
#include "server/static_files.h"
#include "server/tokenize.h"

namespace firstlight::server {
namespace {

using Kind = FieldFact::Kind;
using Facts = std::map<std::string, FieldFact, std::less<>>;

const Json& document() {
  static const Json json = *parse_json(find_static_file("/openapi.json")->text);
  return json;
}

// The properties of a request's schema, with those of all that it is put together from.
void gather(const Json& schema, Json& properties) {
  if (schema.contains("$ref")) {
    const std::string name = schema["$ref"].get<std::string>();
    gather(document()["components"]["schemas"][name.substr(name.rfind('/') + 1)], properties);
  }
  for (const char* list : {"allOf", "oneOf"}) {
    for (const Json& part : schema.value(list, Json::array())) gather(part, properties);
  }
  const Json own = schema.value("properties", Json::object());
  for (const auto& [name, property] : own.items()) properties[name].push_back(property);
}

bool allows(const Json& property, std::string_view type) {
  const Json types = property.value("type", Json());
  return types == Json::array({type, "null"}) || types == Json(type);
}

// Whether one of the places where a field is described says this of it.
bool describes(const FieldFact& fact, const Json& property) {
  const Json otherwise = property.value("default", Json());
  switch (fact.kind) {
    case Kind::kBoolean:
      return allows(property, "boolean") && otherwise == Json(fact.otherwise != 0);
    case Kind::kInteger:
    case Kind::kNumber: {
      const bool in_range = fact.otherwise >= fact.low && fact.otherwise <= fact.high;
      const Json low =
          property.contains("exclusiveMinimum") ? property["exclusiveMinimum"] : property.value("minimum", Json());
      return allows(property, fact.kind == Kind::kInteger ? "integer" : "number") && low == Json(fact.low) &&
             property.value("maximum", Json()) == Json(fact.high) &&
             (in_range ? otherwise == Json(fact.otherwise) : otherwise.is_null());
    }
    case Kind::kString:
      return allows(property, "string") && otherwise == Json(fact.text);
    case Kind::kIgnored:
      return property.value("x-ignored", false);
    case Kind::kFixed:
      return property.value("enum", Json()) == Json::array({Json::parse(fact.text), nullptr});
    case Kind::kAny:
      return !property.value("x-ignored", false);
    case Kind::kRefused:
      return false;
  }
  return false;
}

void compare(const std::string& schema, const Facts& facts) {
  Json properties = Json::object();
  gather(document()["components"]["schemas"][schema], properties);
  for (const auto& [name, fact] : facts) {
    if (fact.kind == Kind::kRefused) {
      EXPECT_FALSE(properties.contains(name))
          << schema << " in src/server/openapi.json has '" << name << "', which is refused";
      continue;
    }
    if (!properties.contains(name)) {
      ADD_FAILURE() << "the server reads '" << name << "'; " << schema << " in src/server/openapi.json lacks it";
      continue;
    }
    const Json& places = properties[name];
    EXPECT_TRUE(std::any_of(places.begin(), places.end(), [&](const Json& place) { return describes(fact, place); }))
        << schema << "." << name << ": " << dump_json(places) << " but it is read as kind "
        << static_cast<int>(fact.kind) << ", " << fact.low << " to " << fact.high << ", default " << fact.otherwise
        << fact.text;
  }
  for (const auto& [name, places] : properties.items()) {
    EXPECT_TRUE(facts.contains(name)) << schema << " in src/server/openapi.json has '" << name
                                      << "', which nobody reads";
  }
}

TEST(OpenApi, HasEveryRoute) {
  std::set<std::pair<std::string, std::string>> written, served;
  for (const auto& [path, methods] : document()["paths"].items()) {
    const size_t variable = path.find('{');
    const std::string plain = variable == std::string::npos ? path : path.substr(0, variable) + "*";
    for (const auto& [method, operation] : methods.items()) written.emplace(method == "get" ? "GET" : "POST", plain);
  }
  for (const auto& [method, path] : ApiService::routes()) served.emplace(method, path);
  EXPECT_EQ(written, served);
}

// Parsers are asked with nothing in the body: they go through all their fields all the same.
TEST(OpenApi, HasEveryFieldOfCompletions) {
  const Json nothing = Json::object();
  for (const auto& [endpoint, schema] :
       {std::pair(Endpoint::kChat, "ChatRequest"), std::pair(Endpoint::kCompletions, "CompletionRequest")}) {
    FieldReader fields(nothing);
    ApiRequest request;
    read_fields(endpoint, fields, {}, request);
    EXPECT_GT(fields.facts().size(), 30u);
    compare(schema, fields.facts());
  }
}

TEST(OpenApi, HasEveryFieldOfTokenizing) {
  Facts both;
  for (const char* body : {R"({"prompt": ""})", R"({"messages": [{"role": "user", "content": ""}]})"}) {
    const Json json = Json::parse(body);
    FieldReader fields(json);
    ApiRequest request;
    bool with_strings = false;
    read_tokenize(fields, request, with_strings);
    EXPECT_TRUE(fields.ok()) << fields.error().message;
    both.insert(fields.facts().begin(), fields.facts().end());
  }
  compare("TokenizeRequest", both);
  const Json nothing = Json::object();
  FieldReader fields(nothing);
  std::string model;
  std::vector<int32_t> ids;
  read_detokenize(fields, model, ids);
  compare("DetokenizeRequest", fields.facts());
}

TEST(OpenApi, HasEveryFieldOfEmbeddings) {
  const Json nothing = Json::object();
  FieldReader fields(nothing);
  EmbeddingRequest request;
  read_embedding_request(fields, {.width = 1 << 20}, {}, request);
  compare("EmbeddingRequest", fields.facts());
}

}  // namespace
}  // namespace firstlight::server
