#include "runtime/aot/interface.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "compiler/support/error.h"

namespace moxie::aot {
namespace {

/// Of C99 and C++20, and the names that the header uses itself.
constexpr std::string_view kReserved =
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class "
    "co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline "
    "int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast "
    "struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual "
    "void volatile wchar_t while xor xor_eq _Bool _Complex _Imaginary int64_t uint64_t linux unix seed step errno "
    "typeof typeof_unqual NULL EOF NAN INFINITY HUGE_VAL I stdin stdout stderr ";
/// Functions and types of the C library (C99, annex B, and those of POSIX that <math.h> and <string.h> declare), whose
/// suffixes f and l are those of float and long double.
constexpr std::string_view kLibrary =
    " abort abs acos acosh asctime asin asinh assert atan atan2 atanh atexit atof atoi atol atoll bcmp bcopy bsearch "
    "bzero cabs cacos cacosh calloc carg casin casinh catan catanh cbrt ccos ccosh ceil cexp cimag clearerr clock clog "
    "conj copysign cos cosh cpow cproj creal csin csinh csqrt ctan ctanh ctime difftime div double_t erf erfc exit exp "
    "exp2 expm1 fabs fclose fdim feof ferror fflush fgetc fgetpos fgets fgetwc fgetws float_t floor fma fmax fmin fmod "
    "fopen fpclassify fprintf fputc fputs fread free freopen frexp fscanf fseek fsetpos ftell fwrite gamma getc "
    "getchar getenv gets gmtime hypot ilogb index isalnum isalpha isblank iscntrl isdigit isfinite isgraph isgreater "
    "isinf isless islower isnan isnormal isprint ispunct isspace isunordered isupper isxdigit j0 j1 jn labs ldexp ldiv "
    "lgamma llabs lldiv llrint llround localeconv localtime log log10 log1p log2 logb longjmp lrint lround main malloc "
    "mblen mbstowcs mbtowc memchr memcmp memcpy memmove memset mktime modf nan nearbyint nextafter nexttoward perror "
    "pow printf ptrdiff_t putc putchar puts qsort raise rand realloc remainder remove remquo rename rewind rindex rint "
    "round scalb scalbln scalbn scanf setbuf setjmp setlocale setvbuf signal signbit significand signgam sin sinh "
    "size_t snprintf sprintf sqrt srand sscanf strcat strchr strcmp strcoll strcpy strcspn strdup strerror strftime "
    "strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtod strtof strtok strtol strtold strtoll strtoul "
    "strtoull strxfrm system tan tanh tgamma time tm tmpfile tmpnam tolower toupper trunc ungetc va_arg va_copy "
    "va_end va_list va_start vfprintf vprintf vsnprintf vsprintf wcstombs wctomb y0 y1 yn ";

bool is_among(std::string_view words, std::string_view word) {
  return words.find(fmt::format(" {} ", word)) != words.npos;
}

bool draws_random(const Plan& plan) {
  return std::ranges::any_of(plan.steps, [](const PlanStep& step) {
    return std::ranges::any_of(kernels_of(step),
                               [](const LoweredKernel* kernel) { return draws_random(kernel->program); });
  });
}

void require_distinct(const Interface& interface) {
  std::map<std::string, std::string> owners;
  const auto add = [&](const std::string& field, const std::string& name) {
    const auto [known, is_new] = owners.emplace(field, name);
    if (!is_new)
      throw TypeError(fmt::format("{} and {} of {} are both called {} in C; rename one of them", known->second, name,
                                  interface.name, field));
  };
  for (const DimArgument& dim : interface.dims) add(dim.field, dim.name);
  for (const TensorArgument& tensor : interface.tensors) add(tensor.field, tensor.name);
}

/// The smallest extent of the dim for which every element is there that the program reads, where all others are
/// `others` long. 0 where something is wrong with a longer one, too.
std::int64_t least_extent(const Program& program, const std::string& dim, std::int64_t others) {
  DimValues dims;
  for (const DimDecl& other : program.dims) {
    if (other.dynamic) dims[other.name] = others;
  }
  const auto is_enough = [&](std::int64_t extent) {
    dims[dim] = extent;
    try {
      verify(specialise_all(program, dims));
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  if (is_enough(0) || !is_enough(others)) return 0;
  std::int64_t too_short = 0, enough = others;
  while (enough - too_short > 1) {
    const std::int64_t middle = (too_short + enough) / 2;
    (is_enough(middle) ? enough : too_short) = middle;
  }
  return enough;
}

/// 0 where that depends on other dims, as of the rows of a matrix that must be as many as its columns.
std::int64_t least_extent(const Program& program, const std::string& dim) {
  constexpr std::int64_t kLong = std::int64_t{1} << 20;
  const std::int64_t least = least_extent(program, dim, kLong);
  return least > 0 && least == least_extent(program, dim, 2 * kLong) ? least : 0;
}

}  // namespace

std::string c_name(std::string_view name) {
  std::string result;
  for (const char c : name) result += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0])) != 0) result.insert(0, "m_");
  if (is_among(kReserved, result)) result += '_';
  return result;
}

std::string function_name(std::string_view formula) {
  std::string name = c_name(formula);
  const bool has_suffix = name.ends_with('f') || name.ends_with('l');
  const bool is_known =
      is_among(kLibrary, name) || (has_suffix && is_among(kLibrary, std::string_view(name).substr(0, name.size() - 1)));
  if (is_known || name.starts_with("moxie_")) name += '_';
  return name;
}

Interface interface_of(const Program& program, const std::string& name, bool random) {
  Interface interface{name, {}, {}, random};
  for (const DimDecl& dim : program.dims) {
    if (dim.dynamic) interface.dims.push_back({dim.name, c_name(dim.name), least_extent(program, dim.name)});
  }
  for (const InputDecl& input : program.inputs)
    interface.tensors.push_back({input.name, c_name(input.name), input.dtype, input.shape, false, input.domain});
  for (const Definition& definition : program.definitions) {
    if (!definition.output) continue;
    interface.tensors.push_back(
        {definition.name, c_name(definition.name), definition.dtype, program.shape_of(definition.name), true});
  }
  require_distinct(interface);
  return interface;
}

Interface interface_of(const Plan& plan, const std::string& name) {
  return interface_of(plan.program, name, draws_random(plan));
}

std::string shape_text(const std::vector<Affine>& shape) {
  std::vector<std::string> extents;
  for (const Affine& extent : shape) extents.push_back(print(extent));
  return fmt::format("[{}]", fmt::join(extents, ","));
}

std::string count_text(const std::vector<Affine>& shape) {
  std::vector<std::string> extents;
  for (const Affine& extent : shape) {
    const std::string text = print(extent);
    const bool is_plain = extent.is_constant() || extent.as_symbol().has_value();
    extents.push_back(is_plain ? text : "(" + text + ")");
  }
  return extents.empty() ? "1" : fmt::format("{}", fmt::join(extents, "*"));
}

}  // namespace moxie::aot
