// Boost.JSON's own code, once for the whole agent.
#include <boost/json/src.hpp>
