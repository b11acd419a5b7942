# minite_embed(file...): makes the text of each file of this folder a std::string_view of the library,
# minite::diagnostics::assets::NAME, NAME being the file's name with '_' for '.'. Headers declare them.
function(minite_embed)
  foreach(file ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(base ${file} NAME)
    string(REPLACE "." "_" name ${base})
    file(READ ${file} text)
    set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
    file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [==[
#include <string_view>
namespace minite::diagnostics::assets {
extern const std::string_view @name@;
const std::string_view @name@ = R"embedded(@text@)embedded";
}  // namespace minite::diagnostics::assets
]==])
    target_sources(minite PRIVATE ${out})
  endforeach()
endfunction()
