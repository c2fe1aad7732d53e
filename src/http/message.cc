#include "http/message.h"

#include "http/syntax.h"

namespace warren::http {

void Headers::set(std::string name, std::string value) {
  remove(name);
  fields_.emplace_back(std::move(name), std::move(value));
}

void Headers::add(std::string name, std::string value) {
  fields_.emplace_back(std::move(name), std::move(value));
}

void Headers::remove(std::string_view name) {
  std::erase_if(fields_, [&](const auto& field) { return same_field_name(field.first, name); });
}

std::optional<std::string_view> Headers::get(std::string_view name) const {
  for (const auto& [key, value] : fields_)
    if (same_field_name(key, name)) return value;
  return std::nullopt;
}

std::vector<std::string_view> Headers::all(std::string_view name) const {
  std::vector<std::string_view> values;
  for (const auto& [key, value] : fields_)
    if (same_field_name(key, name)) values.push_back(value);
  return values;
}

Task<Result<std::string>> BodyReader::read_all(std::size_t limit) {
  const auto too_large = [limit] {
    return fail(ErrorKind::kTooLarge, "the body is larger than " + std::to_string(limit) + " bytes");
  };
  const auto expected = length();
  if (expected && *expected > limit) co_return too_large();
  std::string whole;
  for (;;) {
    auto piece = co_await read();
    if (!piece || piece->empty()) {
      if (!piece) co_return std::unexpected(std::move(piece).error());
      co_return whole;
    }
    if (piece->size() > limit - whole.size()) co_return too_large();
    if (whole.empty())
      whole = *std::move(piece);
    else
      whole += *piece;
  }
}

Task<Result<RawConnection*>> ResponseWriter::upgrade(Headers /*headers*/) {
  co_return fail(ErrorKind::kInternal, "this connection cannot be upgraded");
}

std::optional<std::string_view> Request::query_value(std::string_view name) const {
  for (const auto& [key, value] : query)
    if (key == name) return value;
  return std::nullopt;
}

Response json_response(int status, std::string body) {
  Response response{.status = status, .headers = {}, .body = std::move(body)};
  response.headers.set("Content-Type", "application/json");
  return response;
}

}  // namespace warren::http
