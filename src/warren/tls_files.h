// The server's certificate and key, as files of the operator's. Only root need be able to read them: the
// supervisor does, looks whether they have changed, and shows them to the server in a piece of shared memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "http/certificate.h"
#include "warren/config.h"

namespace warren::cli {

struct TlsText {
  std::string chain;
  std::string key;
};

// What the files say now, if it is of use; kInvalid or kNotFound with the file that is wrong.
Result<TlsText> read_tls_files(const TlsFiles& files);
Result<std::shared_ptr<const http::Certificate>> certificate_of(const TlsText& text);

// The supervisor's side.
class TlsBoard {
 public:
  static Result<TlsBoard> make(TlsFiles files);

  // Reads the files again if they have changed. What is of no use is logged, and what was there stays.
  void look();
  int descriptor() const { return memory_.get(); }

 private:
  TlsBoard(TlsFiles files, UniqueFd memory) : files_(std::move(files)), memory_(std::move(memory)) {}

  Result<void> show(const TlsText& text);

  TlsFiles files_;
  UniqueFd memory_;
  std::string seen_;  // what the files were like when they were read
  std::uint64_t edition_ = 0;
};

// The server's side: the certificate in force.
class TlsReader {
 public:
  // Takes the board's descriptor.
  static Result<std::shared_ptr<TlsReader>> make(UniqueFd memory);

  // Looks whether there is another one.
  void look();
  const std::shared_ptr<const http::Certificate>& certificate() const { return certificate_; }

 private:
  explicit TlsReader(UniqueFd memory) : memory_(std::move(memory)) {}

  Result<void> read();

  UniqueFd memory_;
  std::uint64_t edition_ = 0;
  std::shared_ptr<const http::Certificate> certificate_;
};

}  // namespace warren::cli
