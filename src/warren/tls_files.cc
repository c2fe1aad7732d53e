#include "warren/tls_files.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/log.h"
#include "warren/home.h"

namespace warren::cli {
namespace {

constexpr std::size_t kMostBytes = 1UL << 20;

// What stands at the beginning of the memory. The edition is odd while the rest is being written.
struct Header {
  std::uint64_t edition = 0;
  std::uint64_t chain_bytes = 0;
  std::uint64_t key_bytes = 0;
};

bool read_at(int fd, void* to, std::size_t bytes, off_t at) {
  return ::pread(fd, to, bytes, at) == static_cast<ssize_t>(bytes);
}

bool write_at(int fd, const void* from, std::size_t bytes, off_t at) {
  return ::pwrite(fd, from, bytes, at) == static_cast<ssize_t>(bytes);
}

// Differs when a file has been written or put in another's place.
std::string look_of(const TlsFiles& files) {
  std::string look;
  for (const std::string& path : {files.certificate, files.key}) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return {};
    look += fmt::format("{}:{}:{}:{}.{} ", status.st_dev, status.st_ino, status.st_size,
                        status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  }
  return look;
}

}  // namespace

Result<std::shared_ptr<const http::Certificate>> certificate_of(const TlsText& text) {
  return http::Certificate::make(text.chain, text.key, wall_now());
}

Result<TlsText> read_tls_files(const TlsFiles& files) {
  auto chain = read_small_file(files.certificate);
  if (!chain) return fail(std::move(chain).error().in("server.tls_certificate"));
  auto key = read_small_file(files.key);
  if (!key) return fail(std::move(key).error().in("server.tls_key"));
  TlsText text{.chain = *std::move(chain), .key = *std::move(key)};
  if (text.chain.size() + text.key.size() > kMostBytes)
    return fail(ErrorKind::kInvalid, fmt::format("{} and {} are too large", files.certificate, files.key));
  auto certificate = certificate_of(text);
  if (!certificate)
    return fail(std::move(certificate).error().in(fmt::format("{} and {}", files.certificate, files.key)));
  return text;
}

Result<TlsBoard> TlsBoard::make(TlsFiles files) {
  UniqueFd memory(::memfd_create("warren-tls", MFD_CLOEXEC));
  if (!memory) return fail_errno("memfd_create");
  TlsBoard board(std::move(files), std::move(memory));
  board.seen_ = look_of(board.files_);
  const auto text = read_tls_files(board.files_);
  if (!text) return fail(text.error());
  if (auto shown = board.show(*text); !shown) return fail(std::move(shown).error());
  return board;
}

Result<void> TlsBoard::show(const TlsText& text) {
  const int fd = memory_.get();
  Header header{.edition = edition_ + 1, .chain_bytes = text.chain.size(), .key_bytes = text.key.size()};
  bool written = write_at(fd, &header, sizeof header, 0);
  written = written && write_at(fd, text.chain.data(), text.chain.size(), sizeof header);
  written = written && write_at(fd, text.key.data(), text.key.size(),
                                static_cast<off_t>(sizeof header + text.chain.size()));
  edition_ += 2;
  written = written && write_at(fd, &edition_, sizeof edition_, 0);
  if (!written) return fail_errno("the certificate's memory");
  return {};
}

void TlsBoard::look() {
  std::string now = look_of(files_);
  // In the middle of being replaced one of them may not be there.
  if (now.empty() || now == seen_) return;
  seen_ = std::move(now);
  const auto text = read_tls_files(files_);
  auto shown = text ? show(*text) : Result<void>(std::unexpected(text.error()));
  if (shown)
    log::info("the TLS certificate has been read again");
  else
    log::error("the TLS certificate has changed and is of no use, the old one stays in force: {}",
               shown.error().message());
}

Result<std::shared_ptr<TlsReader>> TlsReader::make(UniqueFd memory) {
  std::shared_ptr<TlsReader> reader(new TlsReader(std::move(memory)));
  WARREN_TRY(reader->read());
  if (!reader->certificate_) return fail(ErrorKind::kUnavailable, "the certificate is just being replaced");
  return reader;
}

void TlsReader::look() {
  if (const auto done = read(); !done) log::error("the TLS certificate: {}", done.error().message());
}

Result<void> TlsReader::read() {
  const int fd = memory_.get();
  Header header;
  if (!read_at(fd, &header, sizeof header, 0)) return fail_errno("the certificate's memory");
  if (header.edition == edition_ || header.edition % 2 == 1) return {};
  if (header.chain_bytes > kMostBytes || header.key_bytes > kMostBytes)
    return fail(ErrorKind::kInternal, "the certificate's memory is damaged");
  TlsText text{.chain = std::string(header.chain_bytes, '\0'), .key = std::string(header.key_bytes, '\0')};
  if (!read_at(fd, text.chain.data(), text.chain.size(), sizeof header) ||
      !read_at(fd, text.key.data(), text.key.size(), static_cast<off_t>(sizeof header + text.chain.size())))
    return fail_errno("the certificate's memory");
  Header after;
  // It has been replaced meanwhile: the next look sees it whole.
  if (!read_at(fd, &after, sizeof after, 0) || after.edition != header.edition) return {};
  edition_ = header.edition;
  auto certificate = certificate_of(text);
  if (!certificate) return fail(std::move(certificate).error());
  certificate_ = *std::move(certificate);
  log::info("TLS: a certificate for {} until {}", certificate_->names(),
            to_rfc3339(certificate_->expires_at()));
  return {};
}

}  // namespace warren::cli
