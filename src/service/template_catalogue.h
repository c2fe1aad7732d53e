// The templates that the runtime has, remembered so that a create needs not ask.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/task.h"
#include "runtime/client.h"

namespace warren::service {

class TemplateCatalogue {
 public:
  void use(std::shared_ptr<runtime::Client> runtime) { runtime_ = std::move(runtime); }

  const std::vector<runtime::TemplateInfo>& known() const { return templates_; }
  // Asks the runtime anew.
  Task<Result<void>> refresh();
  // kInvalid, naming those there are, unless `name` is there and built; asks the
  // runtime before it says no.
  Task<Result<void>> require(std::string name);

 private:
  const runtime::TemplateInfo* find(std::string_view name) const;

  std::shared_ptr<runtime::Client> runtime_;
  std::vector<runtime::TemplateInfo> templates_;
};

}  // namespace warren::service
