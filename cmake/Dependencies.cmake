# The libraries that Phidias links, in one list: read by our own build and, installed, by find_package(phidias), since a
# static library leaves linking them to the program. THIRD_PARTY.md says what each is for.
find_package(Threads REQUIRED)
find_package(fmt 9.1 REQUIRED)
find_package(simdjson 3.0 REQUIRED)
find_package(CURL 7.88 REQUIRED)
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.40)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
find_package(JPEG REQUIRED)
find_package(PNG 1.6 REQUIRED)
pkg_check_modules(webp REQUIRED IMPORTED_TARGET libwebp>=1.2)
