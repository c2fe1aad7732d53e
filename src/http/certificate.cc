#include "http/certificate.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <ctime>
#include <optional>

namespace warren::http {
namespace {

namespace ssl = boost::asio::ssl;

std::unexpected<Error> wrong(std::string_view what, const std::string& why) {
  return fail(ErrorKind::kInvalid, std::string(what) + ": " + why);
}

struct Free {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};

std::optional<WallTime> time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return std::nullopt;
  return WallTime(Seconds(::timegm(&parts)));
}

std::string names_of(X509* certificate) {
  std::string all;
  const std::unique_ptr<GENERAL_NAMES, Free> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS) continue;
    if (!all.empty()) all += ", ";
    all.append(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
               static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
  }
  return all;
}

}  // namespace

Certificate::Certificate() : context_(std::make_unique<ssl::context>(ssl::context::tls_server)) {}
Certificate::~Certificate() = default;

Result<std::shared_ptr<const Certificate>> Certificate::make(std::string_view chain, std::string_view key,
                                                             WallTime now) {
  std::shared_ptr<Certificate> made(new Certificate());
  ssl::context& context = *made->context_;
  boost::system::error_code error;
  // A chain that cannot be read leaves nothing behind for the next try.
  ERR_clear_error();
  context.use_certificate_chain(boost::asio::buffer(chain.data(), chain.size()), error);
  if (error) return wrong("the certificate cannot be read as PEM", error.message());
  // Never a prompt at a terminal for a passphrase.
  context.set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); },
                                error);
  context.use_private_key(boost::asio::buffer(key.data(), key.size()), ssl::context::pem, error);
  SSL_CTX* native = context.native_handle();
  const bool mismatch =
      error && ERR_GET_REASON(static_cast<unsigned long>(error.value())) == X509_R_KEY_VALUES_MISMATCH;
  if (mismatch || (!error && SSL_CTX_check_private_key(native) != 1))
    return fail(ErrorKind::kInvalid, "the key is not that of the certificate");
  if (error) return wrong("the key cannot be read as PEM without a passphrase", error.message());

  X509* own = SSL_CTX_get0_certificate(native);
  const auto from = time_of(X509_get0_notBefore(own));
  const auto until = time_of(X509_get0_notAfter(own));
  if (!from || !until) return fail(ErrorKind::kInvalid, "the certificate has no dates that can be read");
  if (now < *from)
    return fail(ErrorKind::kInvalid, "the certificate is valid only from " + to_rfc3339(*from));
  if (now >= *until) return fail(ErrorKind::kInvalid, "the certificate has expired at " + to_rfc3339(*until));
  made->names_ = names_of(own);
  made->expires_at_ = *until;

  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native,
                      SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Only what the peer has asked for is answered in HTTP/1.1; who offers more takes it.
  SSL_CTX_set_alpn_select_cb(
      native,
      [](SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
         unsigned int offered_size, void*) {
        static constexpr unsigned char kHttp11[] = "\x08http/1.1";
        unsigned char* found = nullptr;
        if (SSL_select_next_proto(&found, size, kHttp11, sizeof kHttp11 - 1, offered, offered_size) !=
            OPENSSL_NPN_NEGOTIATED)
          return SSL_TLSEXT_ERR_NOACK;
        *chosen = found;
        return SSL_TLSEXT_ERR_OK;
      },
      nullptr);
  return made;
}

}  // namespace warren::http
