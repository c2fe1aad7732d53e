#include "service/template_catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/ids.h"

namespace warren::service {

const runtime::TemplateInfo* TemplateCatalogue::find(std::string_view name) const {
  const auto found = std::ranges::find(templates_, name, &runtime::TemplateInfo::name);
  return found == templates_.end() ? nullptr : &*found;
}

Task<Result<void>> TemplateCatalogue::refresh() {
  const auto runtime = runtime_;
  auto templates = co_await runtime->templates();
  if (!templates) co_return fail(std::move(templates).error());
  templates_ = std::move(*templates);
  co_return Result<void>();
}

Task<Result<void>> TemplateCatalogue::require(std::string name) {
  const runtime::TemplateInfo* found = find(name);
  if (found == nullptr || !found->built) {
    WARREN_TRY_CO(co_await refresh());
    found = find(name);
  }
  if (found != nullptr && found->built) co_return Result<void>();
  if (found != nullptr)
    co_return fail(
        ErrorKind::kInvalid,
        fmt::format("template: {} is not built yet; the operator builds it with `warren template build {}`",
                    name, name));
  std::string built;
  for (const auto& one : templates_)
    if (one.built) built += (built.empty() ? "" : ", ") + one.name;
  // The name is the client's: it is repeated only if it is a name.
  const std::string said = is_safe_name(name) ? name + " is unknown" : "unknown";
  co_return fail(ErrorKind::kInvalid, fmt::format("template: {}; expected one of: {}", said,
                                                  built.empty() ? "(none is built)" : built));
}

}  // namespace warren::service
