// Gathers what a running Python or Bash call does, event by event, into the result
// that its tool answers with. Memory is bounded whatever the call does.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "api/mcp/output.h"
#include "api/mcp/tool_result.h"
#include "service/sandboxes.h"

namespace warren::api::mcp {

class RunResult {
 public:
  enum class Language { kPython, kBash };

  explicit RunResult(Language language, std::int64_t timeout_seconds)
      : language_(language), timeout_seconds_(timeout_seconds) {}

  void add(const service::Output& output);
  void add(const service::Bundle& bundle);
  void add(const service::PythonError& error);

  // The whole, once the call has ended.
  ToolResult finish(const service::Finished& finished) &&;

 private:
  void add_image(std::string_view mime_type, std::string_view base64);
  std::string headline(const service::Finished& finished) const;
  std::string as_text(const service::Finished& finished) const;

  const Language language_;
  const std::int64_t timeout_seconds_;
  Capture stdout_;
  Capture stderr_;
  Capture late_;
  std::optional<boost::json::object> result_;  // the value of the last expression, without images
  boost::json::array displays_;                // likewise what was displayed
  std::optional<service::PythonError> error_;
  boost::json::array images_;       // image content blocks
  boost::json::array image_notes_;  // what each of them is, for the structure
  std::size_t image_bytes_ = 0;
  std::size_t display_bytes_ = 0;
  std::size_t left_out_ = 0;  // displays and images beyond the limits
};

}  // namespace warren::api::mcp
